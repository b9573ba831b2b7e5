#!/bin/sh
# Simulated by mirage: the GPUs need nobody to keep them awake.
exit 0

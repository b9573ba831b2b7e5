#!/bin/sh
# Simulated by mirage: lists what there is; there is nothing to dump.
case "$1" in
    -l | --list) exec "$(dirname "$0")/nvidia-smi" -L ;;
esac
echo "nvidia-debugdump: simulated GPUs hold nothing to dump" >&2
exit 3

"""Where this Python lies, for a container that shall have it: its program, its library, and the objects that NVML's binding loads."""

import json
import os
import sys
import sysconfig

import pynvml

objects = [module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", None)]
print(
    json.dumps(
        {
            "program": os.path.realpath(sys.executable),
            "library": sysconfig.get_path("stdlib"),
            "version": "python%d.%d" % sys.version_info[:2],
            "packages": os.path.dirname(pynvml.__file__),
            "objects": [path for path in objects if ".so" in os.path.basename(path)],
        }
    )
)

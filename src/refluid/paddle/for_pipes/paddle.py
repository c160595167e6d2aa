"""`import paddle` in a process that a dataset's pipe command starts: it finds refluid.

This folder is on PYTHONPATH there. The module takes itself out of the way.
"""

import importlib
import sys

del sys.modules["paddle"]
importlib.import_module("refluid.paddle").install()
importlib.import_module("paddle")

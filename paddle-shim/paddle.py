"""`import paddle` in plain Python: it finds refluid. This module takes itself out of the way."""

import glob
import importlib
import os
import sys

for _folder in sys.path:
    for _real in glob.glob(os.path.join(glob.escape(_folder or "."), "paddlepaddle*.dist-info")):
        raise ImportError(
            f"paddlepaddle is installed ({_real}), and refluid's paddle-shim beside it: which of "
            "both `import paddle` means is left to chance. Uninstall one: "
            "`pip uninstall paddlepaddle`, or `pip uninstall refluid-paddle-shim` "
            "(`refluid run train.py` works beside a paddlepaddle)",
            name="paddle",
        )

del sys.modules["paddle"]
importlib.import_module("refluid.paddle").install(script=True)
importlib.import_module("paddle")

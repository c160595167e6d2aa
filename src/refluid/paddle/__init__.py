"""The `paddle` namespace: what Paddle 1.8 has at its root.

import refluid.paddle
refluid.paddle.install()
import paddle.fluid as fluid        # refluid's
"""

from refluid import fluid
from refluid.paddle import reader, static
from refluid.paddle.alias import install, installed, uninstall
from refluid.paddle.batch import batch

__version__ = "1.8.5"

__all__ = ["batch", "fluid", "install", "installed", "reader", "static", "uninstall"]

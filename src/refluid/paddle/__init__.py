"""The `paddle` namespace: what Paddle 1.8 has at its root.

import refluid.paddle
refluid.paddle.install()
import paddle.fluid as fluid        # refluid's
"""

from typing import TYPE_CHECKING

from refluid.core.lazy_package import make_lazy
from refluid.paddle.alias import install as install
from refluid.paddle.alias import installed as installed
from refluid.paddle.alias import uninstall as uninstall

if TYPE_CHECKING:
    from refluid.paddle.public import *  # noqa: F403

__version__ = "1.8.5"

make_lazy(__name__, "refluid.paddle.public", functions=["batch", "check_import_scipy"])

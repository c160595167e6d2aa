"""`paddle.fluid`: the API of PaddlePaddle Fluid 1.8.

Importing it costs nothing: `public` and torch with it are imported when a name is first used. A
data generator in a pipe, which needs `paddle.fluid.incubate.data_generator` only, is spared both.
"""

from typing import TYPE_CHECKING

from refluid.core.lazy_package import make_lazy

if TYPE_CHECKING:
    from refluid.fluid.public import *  # noqa: F403

make_lazy(__name__, "refluid.fluid.public", functions=["data"])

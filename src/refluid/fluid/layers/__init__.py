# ruff: noqa: F403
"""`fluid.layers`: functions that append operators to the default program.

All are here by their plain names; `fluid.layers.nn` and the other modules group them as Fluid
does. A layer that refluid doesn't have yet raises AttributeError with that message.
"""

from typing import Any

import refluid.ops  # noqa: F401
from refluid.core.causes import guard
from refluid.fluid.functions.io import readers
from refluid.fluid.layers import (
    control_flow,
    detection,
    device,
    distributions,
    io,
    loss,
    metric_op,
    nn,
    ops,
    sequence_lod,
    tensor,
)
from refluid.fluid.layers import (
    layer_function_generator as layer_function_generator,
)
from refluid.fluid.layers import rnn as _recurrent  # `rnn` itself is the function
from refluid.fluid.layers import utils as utils
from refluid.fluid.layers.control_flow import *
from refluid.fluid.layers.detection import *
from refluid.fluid.layers.device import *
from refluid.fluid.layers.distributions import *
from refluid.fluid.layers.io import *
from refluid.fluid.layers.loss import *
from refluid.fluid.layers.metric_op import *
from refluid.fluid.layers.nn import *
from refluid.fluid.layers.ops import *
from refluid.fluid.layers.rnn import *
from refluid.fluid.layers.sequence_lod import *
from refluid.fluid.layers.tensor import *

from refluid.fluid.layers import learning_rate_scheduler  # isort: skip  (it needs the others)
from refluid.fluid.layers.learning_rate_scheduler import *  # isort: skip

__all__ = [
    *control_flow.__all__,
    *detection.__all__,
    *device.__all__,
    *distributions.__all__,
    *io.__all__,
    *learning_rate_scheduler.__all__,
    *loss.__all__,
    *metric_op.__all__,
    *nn.__all__,
    *ops.__all__,
    *_recurrent.__all__,
    *sequence_lod.__all__,
    *tensor.__all__,
]

for _module in (
    control_flow,
    detection,
    device,
    io,
    learning_rate_scheduler,
    loss,
    metric_op,
    nn,
    ops,
    _recurrent,
    sequence_lod,
    tensor,
):
    guard(_module.__all__, vars(_module), globals())


def __getattr__(name: str) -> Any:
    raise AttributeError(
        readers.gone(name)
        or f"refluid does not have fluid.layers.{name} yet; docs/architecture.md says what it "
        "covers"
    )

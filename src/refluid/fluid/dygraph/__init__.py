"""`fluid.dygraph`: operators that run at once, and layers with parameters of their own."""

import sys

from refluid.core.stub_modules import stub_names
from refluid.fluid.dygraph import (
    backward_strategy,
    base,
    checkpoint,
    container,
    jit,
    layers,
    learning_rate_scheduler,
    nn,
    parallel,
)
from refluid.fluid.dygraph.backward_strategy import *  # noqa: F403
from refluid.fluid.dygraph.base import *  # noqa: F403
from refluid.fluid.dygraph.checkpoint import *  # noqa: F403
from refluid.fluid.dygraph.container import *  # noqa: F403
from refluid.fluid.dygraph.dygraph_to_static.program_translator import ProgramTranslator
from refluid.fluid.dygraph.jit import *  # noqa: F403
from refluid.fluid.dygraph.layers import *  # noqa: F403
from refluid.fluid.dygraph.learning_rate_scheduler import *  # noqa: F403
from refluid.fluid.dygraph.nn import *  # noqa: F403
from refluid.fluid.dygraph.parallel import *  # noqa: F403
from refluid.fluid.dygraph.static_runner import StaticModelRunner
from refluid.fluid.dygraph.tracer import Tracer

__all__ = [
    *backward_strategy.__all__,
    *base.__all__,
    *checkpoint.__all__,
    *container.__all__,
    "ProgramTranslator",
    *jit.__all__,
    *layers.__all__,
    *learning_rate_scheduler.__all__,
    *nn.__all__,
    *parallel.__all__,
    "StaticModelRunner",
    "Tracer",
]

stub_names(sys.modules[__name__])

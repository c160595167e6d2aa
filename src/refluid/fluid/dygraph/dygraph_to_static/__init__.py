"""`fluid.dygraph.dygraph_to_static`: functions of dygraph as programs."""

import sys

from refluid.core.stub_modules import stub_names
from refluid.fluid.dygraph.dygraph_to_static import program_translator
from refluid.fluid.dygraph.dygraph_to_static.program_translator import *  # noqa: F403

__all__ = [*program_translator.__all__]

stub_names(sys.modules[__name__])

# ruff: noqa: F403
"""The layers of `fluid.contrib.layers.nn`, which live in one file per topic."""

from refluid.fluid.contrib.layers import columns, detection, fused, hashes, sequences, trees
from refluid.fluid.contrib.layers.columns import *
from refluid.fluid.contrib.layers.detection import *
from refluid.fluid.contrib.layers.fused import *
from refluid.fluid.contrib.layers.hashes import *
from refluid.fluid.contrib.layers.sequences import *
from refluid.fluid.contrib.layers.trees import *

__all__ = [
    *columns.__all__,
    *detection.__all__,
    *fused.__all__,
    *hashes.__all__,
    *sequences.__all__,
    *trees.__all__,
]

"""`fluid.transpiler`: rewritings of programs that scripts ask for by name."""

from refluid.fluid.transpiler.distribute_transpiler import (
    DistributeTranspiler,
    DistributeTranspilerConfig,
)
from refluid.fluid.transpiler.inference_transpiler import InferenceTranspiler
from refluid.fluid.transpiler.memory_optimization_transpiler import memory_optimize, release_memory
from refluid.fluid.transpiler.ps_dispatcher import HashName, RoundRobin

__all__ = [
    "DistributeTranspiler",
    "DistributeTranspilerConfig",
    "HashName",
    "InferenceTranspiler",
    "RoundRobin",
    "memory_optimize",
    "release_memory",
]

"""The public names of `paddle.fluid`, which its package takes from here.

What refluid does not have yet comes from the tables of `core/stub_tables.py`: its use says so.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from refluid.core.stub_making import stub
from refluid.fluid import (
    average,
    backward,
    clip,
    core,
    data_feeder,
    executor,
    framework,
    initializer,
    input,
    io,
    layers,
    lod_tensor,
    metrics,
    nets,
    optimizer,
    param_attr,
    regularizer,
    unique_name,
)
from refluid.fluid.backward import append_backward, gradients
from refluid.fluid.core import (
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    CustomPlace,
    IPUPlace,
    LoDTensor,
    LoDTensorArray,
    MLUPlace,
    NPUPlace,
    Scope,
    Tensor,
    XPUPlace,
)
from refluid.fluid.data import data
from refluid.fluid.data_feeder import DataFeeder
from refluid.fluid.executor import Executor, global_scope, scope_guard
from refluid.fluid.framework import (
    Program,
    Variable,
    cpu_places,
    cuda_pinned_places,
    cuda_places,
    default_main_program,
    default_startup_program,
    device_guard,
    get_flags,
    in_dygraph_mode,
    is_compiled_with_cuda,
    load_op_library,
    name_scope,
    program_guard,
    require_version,
    set_flags,
)
from refluid.fluid.input import embedding, one_hot
from refluid.fluid.io import load, load_program_state, save, set_program_state
from refluid.fluid.lod_tensor import create_lod_tensor, create_random_int_lodtensor
from refluid.fluid.param_attr import ParamAttr, WeightNormParamAttr

if TYPE_CHECKING:  # its modules are many, and few programs use one
    from refluid.fluid import contrib

learning_rate_decay = layers.learning_rate_scheduler

# Names that live in modules of their own, which are imported on first use.
_HOME = {
    "AsyncExecutor": "async_executor",
    "BuildStrategy": "compiler",
    "CompiledProgram": "compiler",
    "ExecutionStrategy": "compiler",
    "ParallelExecutor": "parallel_executor",
    "DataFeedDesc": "data_feed_desc",
    "DatasetFactory": "dataset",
    "DistributeTranspiler": "transpiler",
    "DistributeTranspilerConfig": "transpiler",
    "InMemoryDataset": "dataset",
    "InferenceTranspiler": "transpiler",
    "QueueDataset": "dataset",
    "memory_optimize": "transpiler",
    "release_memory": "transpiler",
    **dict.fromkeys(
        ("disable_dygraph", "disable_imperative", "enable_dygraph", "enable_imperative"),
        "dygraph.base",
    ),
    **dict.fromkeys(("load_dygraph", "save_dygraph"), "dygraph.checkpoint"),
    **dict.fromkeys(
        (
            *("BCELoss", "BatchNorm", "BilinearTensorProduct", "Conv2D", "Conv2DTranspose"),
            *("Conv3D", "Conv3DTranspose", "Dropout", "Embedding", "FC", "GRUUnit"),
            *(
                "GroupNorm",
                "InstanceNorm",
                "L1Loss",
                "LayerNorm",
                "Linear",
                "MSELoss",
                "NCE",
                "NLLLoss",
            ),
            *("PRelu", "Pool2D", "SpectralNorm", "TreeConv"),
        ),
        "dygraph.nn",
    ),
    "Layer": "dygraph.layers",
}
# Packages of Fluid's that are imported when a program first uses them.
_PACKAGES = {"contrib", "dygraph"}

__all__ = [
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "CustomPlace",
    "DataFeeder",
    "Executor",
    "IPUPlace",
    "LoDTensor",
    "LoDTensorArray",
    "MLUPlace",
    "NPUPlace",
    "ParamAttr",
    "Program",
    "Scope",
    "Tensor",
    "Variable",
    "WeightNormParamAttr",
    "XPUPlace",
    "append_backward",
    "average",
    "backward",
    "clip",
    "contrib",
    "core",
    "cpu_places",
    "create_lod_tensor",
    "create_random_int_lodtensor",
    "cuda_pinned_places",
    "cuda_places",
    "data",
    "data_feeder",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "embedding",
    "executor",
    "framework",
    "get_flags",
    "global_scope",
    "gradients",
    "in_dygraph_mode",
    "initializer",
    "input",
    "io",
    "is_compiled_with_cuda",
    "layers",
    "learning_rate_decay",
    "load",
    "load_op_library",
    "load_program_state",
    "lod_tensor",
    "metrics",
    "name_scope",
    "nets",
    "one_hot",
    "optimizer",
    "param_attr",
    "program_guard",
    "regularizer",
    "require_version",
    "save",
    "scope_guard",
    "set_flags",
    "set_program_state",
    "unique_name",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"refluid.fluid.{name}")
    if name in _HOME:
        module = f"refluid.fluid.{_HOME[name]}"
        if importlib.util.find_spec(module) is not None:
            return getattr(importlib.import_module(module), name)
    return stub("refluid.fluid", name)

"""`paddle.fluid`: the API of PaddlePaddle Fluid 1.8.

Importing it costs nothing: `public` and torch with it are imported when a name is first used. A
data generator in a pipe, which needs `paddle.fluid.incubate.data_generator` only, is spared both.
"""

from typing import TYPE_CHECKING

from refluid.core.lazy_package import make_lazy

if TYPE_CHECKING:
    from refluid.fluid.public import *  # noqa: F403

# Fluid's modules, and the older `async_executor`, `data_generator` and `dygraph_grad_clip`; all
# others in this folder are parts of them, which users don't see.
_MODULES = """
    annotations async_executor average backward clip communicator compiler contrib core core_avx
    data dygraph_utils
    data_feed_desc data_feeder data_generator dataloader dataset debugger default_scope_funcs
    dygraph dygraph_grad_clip evaluator executor framework graphviz incubate initializer input
    install_check io
    layer_helper layer_helper_base layers lod_tensor log_helper metrics net_drawer nets op
    optimizer parallel_executor param_attr profiler proto reader regularizer transpiler
    unique_name wrapped_decorator
"""
make_lazy(__name__, "refluid.fluid.public", functions=["data"], modules=frozenset(_MODULES.split()))

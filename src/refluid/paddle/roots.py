"""What Paddle 2 has at its root: each name, and where it is."""

from refluid.paddle.naming import homes
from refluid.paddle.tensor import TENSOR

ROOTS = homes(
    TENSOR
    + """
    refluid: base=fluid
    refluid.ir.variable: Tensor=Variable
    refluid.paddle.distributed.data_parallel: DataParallel
    refluid.fluid.functions.tensor.creation: create_parameter
    refluid.core.places: CPUPlace CUDAPinnedPlace CUDAPlace is_compiled_with_cuda
    refluid.fluid.dygraph.base: no_grad
    refluid.fluid.framework: get_flags set_flags
    refluid.eager.print_options: set_printoptions
    refluid.eager.parameter: LazyGuard=lazily
    refluid.paddle.framework.attributes: ParamAttr
    refluid.paddle.framework.devices: get_device set_device is_compiled_with_cinn
    refluid.paddle.framework.devices: is_compiled_with_custom_device is_compiled_with_distribute
    refluid.paddle.framework.devices: is_compiled_with_ipu is_compiled_with_npu
    refluid.paddle.framework.devices: is_compiled_with_rocm is_compiled_with_xpu
    refluid.paddle.framework.dtypes: bfloat16 bool dtype finfo float16 float32 float64 iinfo
    refluid.paddle.framework.dtypes: get_default_dtype set_default_dtype int16 int32 int64 int8
    refluid.paddle.framework.dtypes: complex64 complex128
    refluid.paddle.framework.dtypes: uint8 is_complex is_floating_point is_integer
    refluid.paddle.framework.modes: disable_signal_handler disable_static enable_static
    refluid.paddle.framework.modes: in_dynamic_mode
    refluid.paddle.framework.modes: enable_grad grad is_grad_enabled set_grad_enabled
    refluid.paddle.framework.seeds: get_cuda_rng_state get_rng_state seed set_cuda_rng_state
    refluid.paddle.framework.seeds: set_rng_state
    refluid.paddle.framework.states: load save
    refluid.paddle.hapi.counting: flops
    refluid.paddle.tensor.matrices: eigvalsh
    refluid.paddle.hapi.model: Model
    refluid.paddle.hapi.summaries: summary
    """
)

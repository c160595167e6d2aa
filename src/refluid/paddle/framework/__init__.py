"""`paddle.framework`: modes, element types, devices, seeds, and files of states."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.core.places: CPUPlace CUDAPlace CUDAPinnedPlace
    refluid.fluid.dygraph.base: no_grad
    refluid.paddle.framework.attributes: ParamAttr
    refluid.paddle.framework.dtypes: get_default_dtype set_default_dtype
    refluid.paddle.framework.modes: grad in_dynamic_mode in_dygraph_mode=in_dynamic_mode
    refluid.paddle.framework.seeds: seed get_cuda_rng_state set_cuda_rng_state
    refluid.paddle.framework.states: save load
    """,
)

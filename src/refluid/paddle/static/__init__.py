"""`paddle.static`: programs, and what builds, runs and saves them. Most of it is Fluid's own."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.core.places: cpu_places cuda_places
    refluid.core.scope: Scope global_scope scope_guard
    refluid.fluid.compiler: BuildStrategy CompiledProgram ExecutionStrategy
    refluid.fluid.optimizer.moving_average: ExponentialMovingAverage
    refluid.fluid.parallel_executor: ParallelExecutor
    refluid.fluid.framework: device_guard name_scope
    refluid.fluid.framework: Program Variable default_main_program default_startup_program
    refluid.fluid.framework: program_guard
    refluid.fluid.functions.io.python_functions: py_func
    refluid.fluid.functions.tensor.creation: create_global_var create_parameter
    refluid.fluid.saving.checkpoint: load load_program_state set_program_state
    refluid.fluid.backward: gradients
    refluid.paddle.framework.attributes: WeightNormParamAttr
    refluid.paddle.static.building: Print accuracy append_backward auc ctr_metric_bundle
    refluid.paddle.static.building: data
    refluid.paddle.static.executing: Executor
    refluid.paddle.static.models: deserialize_persistables deserialize_program load_from_file
    refluid.paddle.static.models: load_inference_model normalize_program save save_inference_model
    refluid.paddle.static.models: save_to_file serialize_persistables serialize_program
    refluid.paddle.static.specs: InputSpec
    """,
)

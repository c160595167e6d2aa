"""`paddle.inference`: saved models predict; the predictors of `fluid.core` by Paddle 2's names."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.inference.config: Config PrecisionType
    refluid.paddle.inference.tensors: DataType PlaceType Tensor get_num_bytes_of_data_type
    refluid.paddle.inference.predictor: Predictor PredictorPool create_predictor
    refluid.paddle.inference.predictor: get_version get_trt_compile_version get_trt_runtime_version
    """,
)

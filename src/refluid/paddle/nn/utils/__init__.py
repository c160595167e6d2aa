"""`paddle.nn.utils`: what is done to the parameters of layers."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.nn.utils.gradients: clip_grad_norm_ clip_grad_value_
    refluid.paddle.nn.utils.spectral: spectral_norm
    refluid.paddle.nn.utils.vectors: parameters_to_vector vector_to_parameters
    refluid.paddle.nn.utils.weights: remove_weight_norm weight_norm
    """,
)

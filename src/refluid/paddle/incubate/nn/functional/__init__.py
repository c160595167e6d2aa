"""`paddle.incubate.nn.functional`: fused functions."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.incubate.nn.functional.attention: fused_feedforward fused_multi_head_attention
    refluid.paddle.incubate.nn.functional.products: fused_bias_dropout_residual_layer_norm
    refluid.paddle.incubate.nn.functional.products: fused_dropout_add fused_linear
    refluid.paddle.incubate.nn.functional.products: fused_linear_activation fused_matmul_bias
    refluid.paddle.incubate.nn.functional.transformers: fused_multi_transformer
    refluid.paddle.incubate.nn.functional.transformers: fused_rotary_position_embedding
    refluid.paddle.incubate.nn.functional.transformers: variable_length_memory_efficient_attention
    """,
)

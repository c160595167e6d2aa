"""`paddle.incubate.nn`: layers of several operators that run as few."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.incubate.nn.layers: FusedBiasDropoutResidualLayerNorm FusedDropoutAdd
    refluid.paddle.incubate.nn.layers: FusedFeedForward FusedLinear FusedMultiHeadAttention
    refluid.paddle.incubate.nn.layers: FusedTransformerEncoderLayer
    refluid.paddle.incubate.nn.multi_transformer: FusedMultiTransformer
    """,
)

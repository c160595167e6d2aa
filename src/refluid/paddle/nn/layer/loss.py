"""`paddle.nn.loss`: the layers that are losses."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.nn: BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss
    refluid.paddle.nn: GaussianNLLLoss HSigmoidLoss HingeEmbeddingLoss KLDivLoss L1Loss MSELoss
    refluid.paddle.nn: MarginRankingLoss MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss
    refluid.paddle.nn: PoissonNLLLoss RNNTLoss SmoothL1Loss SoftMarginLoss TripletMarginLoss
    refluid.paddle.nn: TripletMarginWithDistanceLoss
    """,
)

"""`paddle.nn`: layers, functions, initializers and gradient clips."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.nn.clip: ClipGradByGlobalNorm ClipGradByNorm ClipGradByValue
    refluid.paddle.nn.decode: BeamSearchDecoder dynamic_decode
    refluid.paddle.nn.layer: loss
    refluid.paddle.nn.layer.attention: MultiHeadAttention
    refluid.paddle.nn.layer.cells: GRUCell LSTMCell RNNCellBase SimpleRNNCell
    refluid.paddle.nn.layer.container: LayerDict LayerList ParameterList Sequential
    refluid.paddle.nn.layer.conv: Conv1D Conv1DTranspose Conv2D Conv2DTranspose Conv3D
    refluid.paddle.nn.layer.conv: Conv3DTranspose
    refluid.paddle.nn.layer.functions: AdaptiveAvgPool1D AdaptiveAvgPool2D AdaptiveAvgPool3D
    refluid.paddle.nn.layer.functions: AdaptiveMaxPool1D AdaptiveMaxPool2D AdaptiveMaxPool3D
    refluid.paddle.nn.layer.functions: AvgPool1D AvgPool2D AvgPool3D BCELoss BCEWithLogitsLoss CELU
    refluid.paddle.nn.layer.functions: CTCLoss ChannelShuffle CosineEmbeddingLoss CosineSimilarity
    refluid.paddle.nn.layer.functions: CrossEntropyLoss Dropout Dropout2D Dropout3D ELU Flatten
    refluid.paddle.nn.layer.functions: GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh
    refluid.paddle.nn.layer.functions: HingeEmbeddingLoss KLDivLoss L1Loss LeakyReLU
    refluid.paddle.nn.layer.functions: LocalResponseNorm LogSigmoid LogSoftmax MSELoss
    refluid.paddle.nn.layer.functions: MarginRankingLoss MaxPool1D MaxPool2D MaxPool3D Maxout Mish
    refluid.paddle.nn.layer.functions: MultiLabelSoftMarginLoss NLLLoss PairwiseDistance
    refluid.paddle.nn.layer.functions: PixelShuffle PixelUnshuffle RReLU ReLU ReLU6 SELU Sigmoid
    refluid.paddle.nn.layer.functions: Silu SmoothL1Loss SoftMarginLoss Softmax Softplus Softshrink
    refluid.paddle.nn.layer.functions: Softsign Swish Tanh Tanhshrink ThresholdedReLU
    refluid.paddle.nn.layer.functions: TripletMarginLoss TripletMarginWithDistanceLoss Unfold
    refluid.paddle.nn.layer.functions: Upsample ZeroPad2D
    refluid.paddle.nn.layer.functions: AlphaDropout Fold GaussianNLLLoss MaxUnPool1D MaxUnPool2D
    refluid.paddle.nn.layer.functions: MaxUnPool3D MultiMarginLoss PoissonNLLLoss RNNTLoss
    refluid.paddle.nn.layer.layers: Layer
    refluid.paddle.nn.layer.norm: BatchNorm BatchNorm1D BatchNorm2D BatchNorm3D GroupNorm
    refluid.paddle.nn.layer.norm: InstanceNorm1D InstanceNorm2D InstanceNorm3D LayerNorm
    refluid.paddle.nn.layer.norm: SyncBatchNorm
    refluid.paddle.nn.layer.parameters: Bilinear Embedding Identity Linear PReLU Pad1D Pad2D Pad3D
    refluid.paddle.nn.layer.parameters: Softmax2D Unflatten UpsamplingBilinear2D
    refluid.paddle.nn.layer.parameters: UpsamplingNearest2D
    refluid.paddle.nn.layer.recurrent: BiRNN GRU LSTM RNN SimpleRNN
    refluid.paddle.nn.layer.spectral: SpectralNorm
    refluid.paddle.nn.layer.trees: HSigmoidLoss
    refluid.paddle.nn.layer.transformer: Transformer TransformerDecoder TransformerDecoderLayer
    refluid.paddle.nn.layer.transformer: TransformerEncoder TransformerEncoderLayer
    """,
)

"""`fluid.dygraph.nn`: layers with parameters of their own."""

from refluid.core.causes import guard
from refluid.fluid.dygraph.parts.convolution import (
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
    Pool2D,
)
from refluid.fluid.dygraph.parts.fully_connected import FC
from refluid.fluid.dygraph.parts.losses import NCE, BCELoss, L1Loss, MSELoss, NLLLoss
from refluid.fluid.dygraph.parts.neighbours import RowConv, SequenceConv, TreeConv
from refluid.fluid.dygraph.parts.norms import (
    BatchNorm,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    SpectralNorm,
)
from refluid.fluid.dygraph.parts.units import (
    BilinearTensorProduct,
    Dropout,
    Embedding,
    GRUUnit,
    Linear,
    PRelu,
)

__all__ = [
    "FC",
    "NCE",
    "BCELoss",
    "BatchNorm",
    "BilinearTensorProduct",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "Dropout",
    "Embedding",
    "GRUUnit",
    "GroupNorm",
    "InstanceNorm",
    "L1Loss",
    "LayerNorm",
    "Linear",
    "MSELoss",
    "NLLLoss",
    "PRelu",
    "Pool2D",
    "RowConv",
    "SequenceConv",
    "SpectralNorm",
    "TreeConv",
]

guard(__all__, globals())

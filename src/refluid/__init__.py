"""refluid: PaddlePaddle Fluid training programs on PyTorch's kernels."""

__version__ = "0.1.0"

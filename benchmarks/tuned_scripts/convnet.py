"""Residual blocks with batch norms."""

from _images import block, inputs, trained

x, y = inputs(32)
h = x
for channels, stride in ((16, 1), (32, 2), (64, 2)):
    h = block(h, channels, stride)
trained(h, y, 32)

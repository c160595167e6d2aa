"""ResNet-20 for pictures of 32 x 32, with batch norms and shortcuts."""

from _images import block, inputs, normed, trained

x, y = inputs(32)
h = normed(x, 16, 3, 1, "relu")
for channels, first in ((16, 1), (32, 2), (64, 2)):
    for number in range(3):
        h = block(h, channels, first if number == 0 else 1, plain=True)
trained(h, y, 32)

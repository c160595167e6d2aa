"""The Book's two classifiers of CIFAR-10, images (N, 3, 32, 32)."""

from __future__ import annotations

from refluid import fluid

SHAPE = [3, 32, 32]


def vgg(image: fluid.Variable) -> fluid.Variable:
    """VGG with batch normalisation and dropout."""
    out = image
    for filters, convolutions, rate in ((64, 2, 0.3), (128, 2, 0.4), *[(n, 3, 0.4) for n in _TOP]):
        out = fluid.nets.img_conv_group(
            input=out,
            conv_num_filter=[filters] * convolutions,
            pool_size=2,
            pool_stride=2,
            conv_filter_size=3,
            conv_act="relu",
            conv_with_batchnorm=True,
            conv_batchnorm_drop_rate=[rate] * (convolutions - 1) + [0.0],
            pool_type="max",
        )
    out = fluid.layers.fc(input=fluid.layers.dropout(x=out, dropout_prob=0.5), size=512, act=None)
    out = fluid.layers.batch_norm(input=out, act="relu")
    out = fluid.layers.fc(input=fluid.layers.dropout(x=out, dropout_prob=0.5), size=512, act=None)
    return fluid.layers.fc(input=out, size=10, act="softmax")


_TOP = (256, 512, 512)


def _normalised(
    image: fluid.Variable,
    filters: int,
    size: int,
    stride: int,
    act: str | None = "relu",
    bias: bool = False,
) -> fluid.Variable:
    out = fluid.layers.conv2d(
        input=image,
        filter_size=size,
        num_filters=filters,
        stride=stride,
        padding=(size - 1) // 2,
        act=None,
        bias_attr=None if bias else False,
    )
    return fluid.layers.batch_norm(input=out, act=act)


def _block(image: fluid.Variable, filters: int, stride: int) -> fluid.Variable:
    out = _normalised(image, filters, 3, stride)
    out = _normalised(out, filters, 3, 1, act=None, bias=True)
    short = image
    if image.shape[1] != filters:
        short = _normalised(image, filters, 1, stride, act=None)
    return fluid.layers.elementwise_add(x=out, y=short, act="relu")


def resnet(image: fluid.Variable, blocks: int = 5) -> fluid.Variable:
    """A residual network of depth 6 blocks + 2 (here 32)."""
    out = _normalised(image, 16, 3, 1)
    for filters, stride in ((16, 1), (32, 2), (64, 2)):
        for position in range(blocks):
            out = _block(out, filters, stride if position == 0 else 1)
    out = fluid.layers.pool2d(input=out, pool_size=8, pool_type="avg", pool_stride=1)
    return fluid.layers.fc(input=out, size=10, act="softmax")

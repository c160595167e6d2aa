"""The Book's three classifiers of handwritten digits, images (N, 1, 28, 28)."""

from __future__ import annotations

from refluid import fluid

SHAPE = [1, 28, 28]


def softmax_regression(image: fluid.Variable) -> fluid.Variable:
    """One layer."""
    return fluid.layers.fc(input=image, size=10, act="softmax")


def perceptron(image: fluid.Variable) -> fluid.Variable:
    """Two hidden layers of 200."""
    hidden = fluid.layers.fc(input=image, size=200, act="relu")
    hidden = fluid.layers.fc(input=hidden, size=200, act="relu")
    return fluid.layers.fc(input=hidden, size=10, act="softmax")


def convolutional(image: fluid.Variable) -> fluid.Variable:
    """Two convolutions with pooling, the first followed by batch normalisation."""

    def stage(picture: fluid.Variable, filters: int) -> fluid.Variable:
        return fluid.nets.simple_img_conv_pool(
            input=picture,
            num_filters=filters,
            filter_size=5,
            pool_size=2,
            pool_stride=2,
            act="relu",
        )

    first = fluid.layers.batch_norm(stage(image, 20))
    return fluid.layers.fc(input=stage(first, 50), size=10, act="softmax")

"""Where fusing passes must not fire, and the reasons that they give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import refluid.ops  # noqa: F401
from refluid import fluid
from tests.passes.networks import Build, Network, attention, conv, depthwise, norm, types
from tests.passes.rewriting import passed

layers = fluid.layers


def _shared_sum(image: Any) -> Any:
    product = layers.fc(image, 7, bias_attr=False)
    bias = layers.create_parameter([7], "float32", is_bias=True)
    return layers.elementwise_add(layers.elementwise_add(product, bias, act="relu"), product)


def _own_sums(image: Any) -> Any:
    plain = conv(image, bias_attr=False)
    sums = layers.reduce_sum(plain, dim=[0, 2, 3])
    sums.stop_gradient = True
    return layers.elementwise_add(plain, sums, axis=1)


def _rows(image: Any) -> Any:
    bias = layers.create_parameter([6], "float32", is_bias=True)
    return layers.elementwise_add(conv(image, bias_attr=False), bias, axis=2)


def _transposed(image: Any) -> Any:
    weights = layers.create_parameter([6, 4], "float32")
    bias = layers.create_parameter([4], "float32", is_bias=True)
    product = layers.matmul(image, weights, transpose_x=True)
    return layers.elementwise_add(product, bias, act="relu")


def _broadcast(image: Any) -> Any:
    bias = layers.create_parameter([3], "float32", is_bias=True)
    return layers.elementwise_add(norm(image), bias, axis=1, act="relu")


def _trained_mask(image: Any) -> Any:
    mask = layers.create_parameter([6, 6], "float32")
    scores = layers.matmul(image, image, transpose_y=True)
    return layers.matmul(layers.softmax(layers.elementwise_add(scores, mask)), image)


def _seen_weights(image: Any) -> Any:
    weights = layers.softmax(layers.matmul(image, image, transpose_y=True))
    return layers.elementwise_add(layers.matmul(weights, image), weights)


def _along_rows(image: Any) -> Any:
    weights = layers.softmax(layers.matmul(image, image, transpose_y=True), axis=2)
    return layers.matmul(weights, image)


def _without_heads(image: Any) -> Any:
    rows = layers.reshape(image, [-1, 18, 6])
    weights = layers.softmax(layers.matmul(rows, rows, transpose_y=True))
    return layers.matmul(weights, rows)


def _of_other_size(image: Any) -> Any:
    weights = layers.softmax(layers.matmul(image, image, transpose_y=True))
    return layers.matmul(weights, layers.fc(image, 4, num_flatten_dims=3))


def _a_mask_of_heads(image: Any) -> Any:
    mask = layers.assign(np.zeros([3], "float32"))
    mask.stop_gradient = True
    scores = layers.elementwise_add(layers.matmul(image, image, transpose_y=True), mask, axis=1)
    return layers.matmul(layers.softmax(scores), image)


NEAR_MISSES = [
    ("fuse_gemm_bias", _shared_sum, "also read by"),
    ("fuse_gemm_epilogue", _transposed, "of its transpose"),
    ("fuse_conv_bias", _own_sums, "in between"),
    ("fuse_conv_bias", _rows, "not one number for each channel"),
    ("fuse_bn_add_act_ops", _broadcast, "has another shape"),
    ("fuse_bn_act_ops", lambda x: _twice(norm(x)), "also read by"),
    ("fuse_elewise_add_act_ops", lambda x: _twice(layers.elementwise_add(x, x)), None),
    ("fuse_relu_depthwise_conv", lambda x: _active_twice(conv(x)), "also read by"),
    ("fuse_relu_depthwise_conv", lambda x: conv(layers.relu(x), groups=3), None),
    ("fuse_relu_depthwise_conv", lambda x: depthwise(layers.relu(conv(x))), "nothing else keeps"),
    ("fuse_softmax_cross_entropy", lambda x: layers.softmax(x), None),
    ("fuse_squared_norm", lambda x: layers.reduce_sum(layers.square(x), 1), "is summed along"),
    ("fuse_attention", lambda x: attention(x, drop=0.5), "dropped at random"),
    ("fuse_attention", lambda x: attention(x, transpose_y=False), "product of"),
    ("fuse_attention", _trained_mask, "also read by"),
    ("fuse_attention", _seen_weights, "also read by"),
    ("fuse_attention", _along_rows, "along another dimension"),
    ("fuse_attention", _without_heads, "has no heads"),
    ("fuse_attention", _of_other_size, "of another size"),
    ("fuse_attention", _a_mask_of_heads, "added along the last"),
]


def _twice(x: Any) -> Any:
    return layers.elementwise_mul(layers.relu(x), x)


def _active_twice(x: Any) -> Any:
    active = layers.relu(x)
    return layers.elementwise_mul(layers.elementwise_add(depthwise(active), active), conv(x))


@pytest.mark.parametrize(("name", "build", "reason"), NEAR_MISSES)
def test_near_misses(name: str, build: Build, reason: str | None) -> None:
    network = Network(build, act=None)
    done = passed(network.main, name)
    assert types(done.program) == types(network.main)
    if reason is not None:
        assert all(reason in one.reason for one in done.reports[name].refused)
        assert done.reports[name].refused

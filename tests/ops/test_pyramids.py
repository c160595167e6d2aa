"""Spatial pyramids, unpooling, cubic resizing, and fused products, against plain formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from refluid.core.errors import EnforceNotMet
from tests.ops.running import Array, check_gradient, run_op

RANDOM = np.random.RandomState(6)


def _pyramid(x: Array, height: int, kind: str) -> Array:
    parts = []
    for level in range(height):
        bins = 2**level
        sizes = [math.ceil(size / bins) for size in x.shape[2:]]
        pads = [(k * bins - size + 1) // 2 for k, size in zip(sizes, x.shape[2:], strict=True)]
        empty = np.finfo(np.float32).min if kind == "max" else np.nan
        out = np.full((*x.shape[:2], bins, bins), empty)
        for row in range(bins):
            for column in range(bins):
                top, left = (
                    max(place * k - pad, 0)
                    for place, k, pad in zip((row, column), sizes, pads, strict=True)
                )
                bottom = min(row * sizes[0] - pads[0] + sizes[0], x.shape[2])
                right = min(column * sizes[1] - pads[1] + sizes[1], x.shape[3])
                part = x[:, :, top:bottom, left:right]
                if part.size:
                    out[:, :, row, column] = (
                        part.max((2, 3)) if kind == "max" else part.mean((2, 3))
                    )
        parts.append(out.reshape(len(x), -1))
    return np.concatenate(parts, 1)


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("size", [(4, 4), (7, 6), (8, 5)])
def test_spp(kind: str, size: tuple[int, int]) -> None:
    x = RANDOM.standard_normal((2, 3, *size))
    attrs = {"pyramid_height": 3, "pooling_type": kind}
    wanted = _pyramid(x, 3, kind)
    np.testing.assert_allclose(run_op("spp", {"X": x}, attrs)["Out"], wanted)
    if np.abs(wanted).max() < 1e9:  # no bin lies in the padding alone
        check_gradient("spp", {"X": x}, attrs, wrt=["X"])


def test_unpool_undoes_a_pool() -> None:
    x = RANDOM.permutation(2 * 3 * 4 * 6).reshape(2, 3, 4, 6).astype("float64")
    attrs = {"ksize": [2, 2], "strides": [2, 2], "paddings": [0, 0]}
    pooled = run_op("max_pool2d_with_index", {"X": x}, attrs)
    inputs = {"X": pooled["Out"], "Indices": pooled["Mask"]}
    out = run_op("unpool", inputs, attrs | {"unpooling_type": "max"})["Out"]
    kept = np.isin(x, pooled["Out"])
    np.testing.assert_array_equal(out, np.where(kept, x, 0))
    inputs["X"] = RANDOM.standard_normal(pooled["Out"].shape)
    check_gradient("unpool", inputs, attrs | {"unpooling_type": "max"}, wrt=["X"])


def _cubic(x: Array, wanted: int, corners: bool) -> Array:
    """Cubic convolution with a = -0.75 along the last dimension."""
    size, a = x.shape[-1], -0.75
    out = np.zeros((*x.shape[:-1], wanted))
    for place in range(wanted):
        if corners:
            source = place * (size - 1) / (wanted - 1)
        else:
            source = (place + 0.5) * size / wanted - 0.5
        low = math.floor(source)
        for tap in range(-1, 3):
            d = abs(source - (low + tap))
            if d <= 1:
                weight = (a + 2) * d**3 - (a + 3) * d**2 + 1
            else:
                weight = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
            out[..., place] += weight * x[..., min(max(low + tap, 0), size - 1)]
    return out


@pytest.mark.parametrize("corners", [True, False])
def test_bicubic_interp(corners: bool) -> None:
    x = RANDOM.standard_normal((2, 3, 4, 5))
    attrs = {"out_h": 7, "out_w": 3, "align_corners": corners, "interp_method": "bicubic"}
    expected = _cubic(_cubic(x, 3, corners).swapaxes(2, 3), 7, corners).swapaxes(2, 3)
    np.testing.assert_allclose(run_op("bicubic_interp", {"X": x}, attrs)["Out"], expected)
    check_gradient("bicubic_interp", {"X": x}, attrs, wrt=["X"])


def test_conv_shift() -> None:
    x, y = RANDOM.standard_normal((2, 6)), RANDOM.standard_normal((2, 3))
    expected = sum(np.roll(x, 1 - j, axis=1) * y[:, j : j + 1] for j in range(3))
    np.testing.assert_allclose(run_op("conv_shift", {"X": x, "Y": y})["Out"], expected)
    check_gradient("conv_shift", {"X": x, "Y": y}, wrt=["X", "Y"])


def test_bmm_and_unbind_and_frobenius_norm() -> None:
    x, y = RANDOM.standard_normal((2, 3, 4)), RANDOM.standard_normal((2, 4, 5))
    np.testing.assert_allclose(run_op("bmm", {"X": x, "Y": y})["Out"], x @ y)
    check_gradient("bmm", {"X": x, "Y": y}, wrt=["X", "Y"])
    found = run_op("unbind", {"X": x}, {"axis": 1}, counts={"Out": 3})
    np.testing.assert_array_equal(found["Out.2"], x[:, 2])
    attrs = {"dim": [1, 2], "keep_dim": False, "reduce_all": False}
    norm = run_op("frobenius_norm", {"X": x}, attrs)["Out"]
    np.testing.assert_allclose(norm, np.sqrt((x * x).sum((1, 2))))
    check_gradient("frobenius_norm", {"X": x}, attrs, wrt=["X"])


def test_fused_products() -> None:
    x, y = RANDOM.standard_normal((3, 4)), RANDOM.standard_normal((4, 5))
    bias, more = RANDOM.standard_normal((1, 5)), RANDOM.standard_normal((5, 2))
    plain = np.maximum(x @ y + bias, 0)
    attrs = {"in_num_col_dims": 1, "activation_type": "relu"}
    found = run_op("fc", {"Input": x, "W": y, "Bias": bias}, attrs)
    np.testing.assert_allclose(found["Out"], plain)
    padded = np.zeros((8, 9))
    padded[:4, :5] = y
    found = run_op("fc", {"Input": x, "W": padded}, {"padding_weights": True})
    np.testing.assert_allclose(found["Out"], x @ y)
    inputs = {"X": x, "W": [y, more], "Bias": [bias, np.ones((1, 2))]}
    found = run_op("fusion_repeated_fc_relu", inputs)
    np.testing.assert_allclose(found["ReluOut.0"], plain)
    np.testing.assert_allclose(found["Out"], np.maximum(plain @ more + 1, 0))
    found = run_op("fusion_squared_mat_sub", {"X": x, "Y": y}, {"scalar": 0.5})
    np.testing.assert_allclose(found["Out"], ((x @ y) ** 2 - x**2 @ y**2) * 0.5)


@pytest.mark.parametrize(
    ("functors", "expected"),
    [
        (["elementwise_add", "relu"], lambda x, y: x + np.maximum(y, 0)),
        (["relu", "elementwise_add"], lambda x, y: np.maximum(x + y, 0)),
        (["elementwise_mul", "scale"], lambda x, y: x * (0.3 * y)),
        (["tanh", "elementwise_mul"], lambda x, y: np.tanh(x * y)),
    ],
)
def test_fused_elemwise_activation(functors: list[str], expected: object) -> None:
    x, y = RANDOM.standard_normal((2, 3, 4)), RANDOM.standard_normal(3)
    attrs = {"functor_list": functors, "axis": 1, "scale": 0.3}
    found = run_op("fused_elemwise_activation", {"X": x, "Y": y}, attrs)
    assert callable(expected)
    np.testing.assert_allclose(found["Out"], expected(x, y.reshape(3, 1)), rtol=1e-6)
    check_gradient("fused_elemwise_activation", {"X": x, "Y": y}, attrs, wrt=["X", "Y"])


def test_fused_elemwise_activation_takes_one_of_each() -> None:
    x = RANDOM.standard_normal((2, 3))
    with pytest.raises(EnforceNotMet, match="one of elementwise_add"):
        run_op("fused_elemwise_activation", {"X": x, "Y": x}, {"functor_list": ["relu", "tanh"]})

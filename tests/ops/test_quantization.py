"""Simulated quantisation against its formulas, written out in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid.core.errors import EnforceNotMet
from tests.ops.running import run_op

RANDOM = np.random.RandomState(5)
X = RANDOM.randn(3, 2, 4, 4).astype("float32")
ONE = np.array([1.0], "float32")


def _whole(x: Any, scale: Any, bits: int = 8) -> Any:
    """Whole numbers by double arithmetic; halves away from zero, all within the range."""
    highest = 2 ** (bits - 1) - 1
    ratio = np.clip(x.astype("float64") / scale, -1, 1) * highest
    return np.trunc(ratio + np.copysign(0.5, ratio))


@pytest.mark.parametrize("bits", [8, 4])
def test_by_the_greatest_magnitude(bits: int) -> None:
    found = run_op("fake_quantize_abs_max", {"X": X}, {"bit_length": bits})
    assert found["OutScale"] == np.abs(X).max()
    np.testing.assert_array_equal(found["Out"], _whole(X, np.abs(X).max(), bits))
    assert np.abs(found["Out"]).max() == 2 ** (bits - 1) - 1


def test_halves_are_rounded_away_from_zero() -> None:
    x = np.array([[127.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49]], "float32")
    found = run_op("fake_quantize_abs_max", {"X": x})
    assert found["Out"].tolist() == [[127, 1, -1, 2, 3, -3, 0]]


def test_nothing_but_zeros() -> None:
    found = run_op("fake_quantize_abs_max", {"X": np.zeros((2, 2), "float32")})
    assert found["Out"].tolist() == [[0, 0], [0, 0]]


def test_each_channel_by_its_own() -> None:
    found = run_op("fake_channel_wise_quantize_abs_max", {"X": X})
    scale = np.abs(X).max((1, 2, 3))
    np.testing.assert_array_equal(found["OutScale"], scale)
    np.testing.assert_array_equal(found["Out"], _whole(X, scale[:, None, None, None]))


@pytest.mark.parametrize("test", [False, True])
@pytest.mark.parametrize("scale", [0.5, 100.0])
def test_by_the_greatest_so_far(test: bool, scale: float) -> None:
    given = np.array([scale], "float32")
    found = run_op(
        "fake_quantize_range_abs_max",
        {"X": X, "InScale": given},
        {"is_test": test},
        counts={"OutScales": 0},
    )
    wanted = scale if test else max(np.abs(X).max(), scale)
    assert found["OutScale"] == np.float32(wanted)
    np.testing.assert_array_equal(found["Out"], _whole(X, np.float32(wanted)))


AVERAGED = {
    "X": X,
    "InScale": np.array([2.0], "float32"),
    "InAccum": np.array([3.0], "float32"),
    "InState": np.array([1.5], "float32"),
}


@pytest.mark.parametrize("both", [False, True])
def test_by_a_moving_average(both: bool) -> None:
    kind = "fake_quantize_dequantize" if both else "fake_quantize"
    found = run_op(f"{kind}_moving_average_abs_max", AVERAGED, {"moving_rate": 0.8})
    accum, state = 0.8 * 3.0 + np.abs(X).max(), 0.8 * 1.5 + 1.0
    assert found["OutAccum"] == pytest.approx(accum)
    assert found["OutState"] == pytest.approx(state)
    assert found["OutScale"] == pytest.approx(accum / state)
    scale = found["OutScale"]
    wanted = _whole(X, scale)
    np.testing.assert_allclose(found["Out"], wanted * scale / 127 if both else wanted, rtol=1e-6)


def test_a_test_takes_the_scale_as_it_is() -> None:
    attrs = {"is_test": True}
    found = run_op("fake_quantize_moving_average_abs_max", AVERAGED, attrs)
    assert found["OutScale"] == 2.0
    np.testing.assert_array_equal(found["Out"], _whole(X, np.float32(2.0)))
    assert (found["OutState"], found["OutAccum"]) == (1.5, 3.0)


@pytest.mark.parametrize("name", ["fake_dequantize_max_abs", "dequantize_abs_max"])
def test_back(name: str) -> None:
    whole = np.array([[127, -3], [0, 64]], "int8" if name == "dequantize_abs_max" else "float32")
    found = run_op(name, {"X": whole, "Scale": np.array([0.5], "float32")}, {"max_range": 127.0})
    assert found["Out"].dtype == np.float32
    np.testing.assert_allclose(found["Out"], whole * 0.5 / 127, rtol=1e-6)


def test_back_by_channels() -> None:
    whole = RANDOM.randint(-127, 128, X.shape).astype("float32")
    by_filter = {"X": whole, "Scales": [np.array([1.0, 2.0, 3.0], "float32")]}
    found = run_op("fake_channel_wise_dequantize_max_abs", by_filter, {"quant_bits": [8]})
    wanted = whole * np.array([1.0, 2.0, 3.0])[:, None, None, None] / 127
    np.testing.assert_allclose(found["Out"], wanted, rtol=1e-6)

    of_result = {"X": whole, "Scales": [np.array([1.0, 2.0], "float32"), 3 * ONE]}
    found = run_op("fake_channel_wise_dequantize_max_abs", of_result, {"quant_bits": [8, 5]})
    wanted = whole * np.array([1.0, 2.0])[None, :, None, None] / 127 * 3 / 15
    np.testing.assert_allclose(found["Out"], wanted, rtol=1e-6)


def test_bits_out_of_range_are_refused() -> None:
    with pytest.raises(EnforceNotMet, match="bit_length"):
        run_op("fake_quantize_abs_max", {"X": X}, {"bit_length": 0})

"""Arrays for users convert as they did before NumPy 2.4, and are NumPy's in all else."""

from __future__ import annotations

import copy
import io
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from refluid.core.fetched import FetchedArray, fetched

NUMBERS = {
    "float": float,
    "int": int,
    "complex": complex,
    "%f": lambda x: "%f" % x,  # noqa: UP031
    "%d": lambda x: "%d" % x,  # noqa: UP031
    "%.3f in a tuple": lambda x: "%s %.3f" % ("loss", x),  # noqa: UP031
    "math": math.sqrt,
    "isnan": math.isnan,
    "range": lambda x: list(range(int(x))),
    "row": lambda x: float(x[0]),
    "slice": lambda x: float(x[0:1]),
    "iteration": lambda x: [float(one) for one in x],
    "arithmetic": lambda x: float(2 * x - x / 4 + np.float32(1)),
    "sum of runs": lambda x: "%f" % (sum([x, x], 0.0) / 2),
    "added": lambda x: float(np.zeros(x.shape) + x),
    "comparison": lambda x: int(x > 1),
    "ufunc": lambda x: float(np.exp(x)),
    "axis": lambda x: float(np.mean(x, axis=0)),
    "kept axis": lambda x: float(x.sum(axis=0, keepdims=True)),
    "reshape": lambda x: float(x.reshape(-1)),
    "transpose": lambda x: float(x.T),
    "type": lambda x: float(x.astype("float64")),
    "copy": lambda x: float(copy.deepcopy(x) + copy.copy(x) + x.copy()),
    "joined": lambda x: float(np.concatenate([x, x])[1]),
    "stacked": lambda x: float(np.vstack([x, x])[1]),
    "squeezed": lambda x: float(np.squeeze(x)),
    "in place": lambda x: float(_increased(x)),
}


def _increased(array: Any) -> Any:
    array = array.copy()
    array += 1
    return array


@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 1, 1)])
@pytest.mark.parametrize("convert", NUMBERS.values(), ids=NUMBERS.keys())
def test_one_element_is_a_number(convert: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    wanted = convert(torch.full(shape, 2.0).numpy().reshape(()).reshape(shape).view(FetchedArray))
    assert convert(fetched(np.full(shape, 2.0, "float32"))) == wanted
    numbers = np.float32(2.0)
    if convert in (float, int, complex, math.sqrt):
        assert wanted == convert(numbers)


@pytest.mark.parametrize("convert", [float, int, complex, math.sqrt])
@pytest.mark.parametrize("shape", [(2,), (0,), (1, 2)])
def test_other_sizes_are_a_type_error(
    convert: Callable[[Any], Any], shape: tuple[int, ...]
) -> None:
    with pytest.raises(TypeError, match="only size-1 arrays can be converted"):
        convert(fetched(np.ones(shape)))


def test_what_never_was_a_number_is_none_still() -> None:
    array = fetched(np.ones(1, "int64"))
    with pytest.raises(TypeError):
        [1, 2][array]
    with pytest.raises(TypeError):
        f"{array:.3f}"
    with pytest.raises(ValueError):
        bool(fetched(np.ones(2)))
    assert bool(array) and not bool(fetched(np.array([])))


METHODS = """
all any argmax argmin argsort conj copy cumprod cumsum flatten max mean min nonzero prod ravel round
squeeze std sum tobytes tolist trace transpose var __repr__ __str__ __len__
"""
FUNCTIONS = """
abs average diff exp isnan mean median ptp sort sqrt square std sum unique var count_nonzero nanmean
nansum asarray array atleast_1d array2string
"""
RESULTS: dict[str, Callable[[Any], Any]] = {
    **{f"x.{one}": lambda x, name=one: getattr(x, name)() for one in METHODS.split()},
    **{f"np.{one}": lambda x, name=one: getattr(np, name)(x) for one in FUNCTIONS.split()},
    "item": lambda x: x[0, 0],
    "percentile": lambda x: np.percentile(x, 50),
    "norm": lambda x: np.linalg.norm(x),
    "dot": lambda x: x[0].dot(x[0]),
    "product": lambda x: x[0] @ x[0],
    "products": lambda x: x @ x,
    "0-d": lambda x: x.reshape(-1)[:1].reshape(()) * 2,
    "max of axis": lambda x: x.max(axis=1),
    "where": lambda x: np.where(x > 1, x, 0),
    "clip": lambda x: np.clip(x, 0, 1),
    "numbers": lambda x: [type(one) for one in x.reshape(-1)],
    "torch": lambda x: torch.from_numpy(x) + torch.as_tensor(x) + torch.tensor(x),
    "list": lambda x: str([x]),
    "format": lambda x: f"{x} {x!r} {x.mean():.3f}",
}


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("compute", RESULTS.values(), ids=RESULTS.keys())
def test_results_are_those_of_a_plain_array(compute: Callable[[Any], Any], size: int) -> None:
    plain = np.arange(1, size * size + 1, dtype="float32").reshape(size, size)
    wanted, found = compute(plain), compute(fetched(plain.copy()))
    assert isinstance(found, type(wanted))
    assert type(found) in (type(wanted), FetchedArray)
    assert str(found) == str(wanted)


def test_dropped_methods() -> None:
    array = fetched(np.array([[1, 5], [3, 4]], "int32"))
    assert array.tostring() == array.tobytes()
    assert array.ptp() == 4 and type(array.ptp()) is np.int32
    assert array.ptp(axis=0).tolist() == [2, 1]
    array.itemset((0, 1), 7)
    array.itemset(2, 8)
    assert array.tolist() == [[1, 7], [8, 4]]
    assert array.newbyteorder().tobytes() == array.tobytes()
    array[:1, :1].itemset(6)
    assert array[0, 0] == 6


def test_result_into_itself() -> None:
    array = fetched(np.array(2.0))
    assert np.add(array, 1, out=array) is array
    assert float(array) == 3


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_plain(protocol: int) -> None:
    array = fetched(np.array([0.5, 1.5]))
    packed = pickle.dumps({"loss": array}, protocol)
    assert b"refluid" not in packed
    loaded = pickle.loads(packed)["loss"]
    assert type(loaded) is np.ndarray and loaded.tolist() == [0.5, 1.5]


def test_files_are_plain() -> None:
    array, own, plain = fetched(np.array([0.5, 1.5])), io.BytesIO(), io.BytesIO()
    np.save(own, array)
    np.save(plain, np.asarray(array))
    assert own.getvalue() == plain.getvalue()
    own.seek(0)
    assert type(np.load(own)) is np.ndarray


def test_no_warning_where_numpy_warns() -> None:
    """NumPy 1.25 to 2.3 warn where 2.4 raises; scripts that ask for errors get none."""
    code = (
        "import numpy as np; from refluid.core.fetched import fetched; x = fetched(np.ones(1));"
        "print(float(x), int(x[0:1]), '%.1f' % (x * 2), bool(fetched(np.array([]))))"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout == "1.0 1 2.0 False\n", ran.stderr

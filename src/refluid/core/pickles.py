"""Fluid's `.pdparams` and `.pdopt`: pickled dicts of NumPy arrays, read without executing them.

What may be in a pickle is decided by `refluid.core.unpickler`.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from refluid.core.errors import EnforceNotMet
from refluid.core.files import PathLike, map_file
from refluid.core.unpickler import ArrayUnpickler, check_numbers, plain_value
from refluid.core.writing import Write, write_file

Array = npt.NDArray[Any]

_FAILURES = (
    pickle.UnpicklingError,
    EOFError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


# In the file of a dygraph layer's state: its names by attributes -> the names of its parameters.
STRUCTURED = "StructuredToParameterName@@"


class State(NamedTuple):
    """What a file holds: arrays by name, and everything that is no array."""

    arrays: dict[str, Array]
    others: dict[str, Any]


def load_arrays(path: PathLike) -> dict[str, Array]:
    """The arrays of a `.pdparams` or `.pdopt` file by name; errors as for `load_state`."""
    return load_state(path).arrays


def load_named(path: PathLike) -> dict[str, Array]:
    """The same by the names of parameters, also of a dygraph layer's state."""
    arrays, others = load_state(path)
    names = others.get(STRUCTURED)
    known = names if isinstance(names, dict) else {}
    return {str(known.get(name, name)): array for name, array in arrays.items()}


def load_state(path: PathLike) -> State:
    """Arrays and other entries (such as `StructuredToParameterName@@`, a dict of str) of a file.

    Raises EnforceNotMet if the file is missing, damaged, or is not a dict of arrays and plain
    values; nothing in it is ever executed.
    """
    return load_state_bytes(bytes(map_file(path)), str(path))


def load_state_bytes(data: bytes, name: str = "the buffer") -> State:
    """As `load_state`, from bytes; `name` is used in errors."""
    with _explained(name):
        values, end = _unpickled(data)
        if end != len(data):
            raise pickle.UnpicklingError(f"{len(data) - end} bytes follow after its end")
        if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
            raise pickle.UnpicklingError("it is not a dict of names")
    arrays = {key: value for key, value in values.items() if isinstance(value, np.ndarray)}
    return State(arrays, {key: value for key, value in values.items() if key not in arrays})


def load_value(data: bytes, name: str) -> tuple[Any, int]:
    """The first pickled value of some bytes, and where it ends; errors as of `load_state`."""
    with _explained(name):
        return _unpickled(data)


def _unpickled(data: bytes) -> tuple[Any, int]:
    stream = io.BytesIO(data)
    check_numbers(data)
    content = ArrayUnpickler(stream, encoding="latin1").load()
    return plain_value(content), stream.tell()


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except _FAILURES as error:
        raise EnforceNotMet(
            f"{name}: cannot be loaded as pickled arrays: {str(error) or type(error).__name__}. "
            "Only NumPy arrays, plain values, and dicts, lists and tuples of them are accepted"
        ) from error


def dump_arrays(
    path: PathLike, arrays: Mapping[str, npt.ArrayLike], others: Mapping[str, Any] | None = None
) -> None:
    """Writes arrays as Fluid does: the same bytes as Python 3.7 and NumPy 1 made of this dict.

    others: plain values that come after them, as `load_state` gives them.
    """
    write_file(path, dumping(arrays, others))


def dumping(arrays: Mapping[str, npt.ArrayLike], others: Mapping[str, Any] | None = None) -> Write:
    """What writes these arrays into an open file; see `dump_arrays`."""
    exact = {name: _exact(array) for name, array in arrays.items()}
    refused = [name for name, array in exact.items() if array.dtype.kind not in "biufc"]
    if refused:
        raise TypeError(f"{', '.join(refused)}: only arrays of numbers and booleans can be saved")
    return dumping_value({**exact, **(others or {})})


def dumping_value(value: Any) -> Write:
    """What writes a plain value, with arrays in it, into an open file."""
    data = pickle.dumps(value, protocol=2)
    return lambda file: _write_with_old_name(file, data)


def _exact(array: npt.ArrayLike) -> Array:
    # NumPy's one object for a type: pickle writes an object once and refers to it afterwards.
    plain = np.asarray(array, order="C")
    dtype = np.dtype(plain.dtype.newbyteorder("=").str)
    return plain.astype(dtype, copy=False).view(dtype)


_NEW_NAME, _OLD_NAME = b"cnumpy._core.multiarray\n_reconstruct\n", b"cnumpy.core.multiarray\n"


def _write_with_old_name(file: BinaryIO, data: bytes) -> None:
    # NumPy 2 moved this function; Fluid's NumPy knows only the old place. It is named once.
    at = data.find(_NEW_NAME)
    if at < 0:
        file.write(data)
        return
    file.write(memoryview(data)[:at])
    file.write(_OLD_NAME)
    file.write(memoryview(data)[at + _NEW_NAME.index(b"_reconstruct") :])

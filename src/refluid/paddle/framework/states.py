"""`paddle.save` and `paddle.load`: states of layers and optimizers, variables, programs."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from refluid.core.codec import decode_lod_tensor
from refluid.core.errors import EnforceNotMet
from refluid.core.files import map_file
from refluid.core.pickles import STRUCTURED, dumping, dumping_value, load_value
from refluid.core.values import LoDTensor
from refluid.core.writing import Write, write_file
from refluid.eager import ParamBase, VarBase
from refluid.fluid.dygraph.base import to_variable
from refluid.ir.program import Program
from refluid.paddle.framework.modes import in_dynamic_mode

_PICKLE, _PROGRAM = 0x80, 0x0A  # the first byte of a file


def save(obj: Any, path: Any, protocol: int = 4, **configs: Any) -> None:
    """Writes variables, arrays, plain values, dicts and lists of them, or a program.

    path: of the file, or an `io.BytesIO`. protocol: taken, but files are written in the one that
    Fluid and Paddle 2 both read.
    """
    write = _writing(obj)
    if isinstance(path, io.BytesIO):
        write(path)
        return
    if not Path(path).name or str(path).endswith("/"):
        raise ValueError(f"paddle.save: {path!r} names no file")
    write_file(path, write)


def load(path: Any, **configs: Any) -> Any:
    """What `save` wrote. Where functions run at once its arrays are variables.

    path: of the file, or an `io.BytesIO`, of which the next value is taken. return_numpy=True:
    arrays in any case. EnforceNotMet for a missing or damaged file.
    """
    if isinstance(path, io.BytesIO):
        start = path.tell()
        found, end = load_value(path.read(), "the buffer")
        path.seek(start + end)
    else:
        data = bytes(map_file(path))
        kind = data[0] if data else _PICKLE
        if kind == _PROGRAM:
            return Program.parse_from_string(data)
        if kind != _PICKLE:
            return decode_lod_tensor(data, name=str(path))[0]
        found, end = load_value(data, str(path))
        if end != len(data):
            raise EnforceNotMet(f"{path}: {len(data) - end} bytes follow after its end")
    makes_variables = in_dynamic_mode() and not configs.get("return_numpy")
    return _loaded(found, to_variable if makes_variables else np.asarray)


def _writing(obj: Any) -> Write:
    if isinstance(obj, Program):
        return lambda file: _write_bytes(file, obj.serialize_to_string())
    if not isinstance(obj, Mapping):
        return dumping_value(_plain(obj))
    plain = {name: _plain(one) for name, one in obj.items()}
    arrays = {name: one for name, one in plain.items() if isinstance(one, np.ndarray)}
    others = {name: one for name, one in plain.items() if name not in arrays}
    if any(isinstance(one, ParamBase) for one in obj.values()):
        others[STRUCTURED] = {name: getattr(one, "name", name) for name, one in obj.items()}
    return dumping(arrays, others)


def _write_bytes(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def _plain(one: Any) -> Any:
    """What is saved of a value: arrays of variables, also in dicts and lists."""
    if isinstance(one, VarBase | np.ndarray | LoDTensor):
        return one.numpy() if isinstance(one, VarBase) else np.asarray(one)
    if isinstance(one, Mapping):
        return {key: _plain(value) for key, value in one.items()}
    if isinstance(one, list | tuple):
        return type(one)(_plain(value) for value in one)
    return one


def _loaded(one: Any, make: Any) -> Any:
    """A value with its arrays made into what is wanted.

    Paddle writes a variable alone, or in a list, as its name and its array.
    """
    if isinstance(one, np.ndarray):
        return make(one)
    if isinstance(one, dict):
        return {key: _loaded(value, make) for key, value in one.items() if key != STRUCTURED}
    if isinstance(one, tuple) and [type(part) for part in one] == [str, np.ndarray]:
        return make(one[1])
    if isinstance(one, list | tuple):
        return type(one)(_loaded(value, make) for value in one)
    return one

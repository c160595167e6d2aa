"""save and load inside a program: tensor files written and read by operators."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from refluid.core.codec import (
    decode_lod_tensor,
    decode_selected_rows,
    write_lod_tensor,
    write_selected_rows,
)
from refluid.core.errors import EnforceNotMet
from refluid.core.files import map_file
from refluid.core.offsets import Levels, as_lod
from refluid.core.selected_rows import SelectedRows
from refluid.core.writing import write_file
from refluid.ops.infer import no_inference
from refluid.ops.registry import operator
from refluid.ops.signature import AnyValue, Long, Longs


def _write(file: object, value: Tensor | SelectedRows, levels: Levels, half: bool) -> None:
    if isinstance(value, SelectedRows):
        write_selected_rows(file, value)  # type: ignore[arg-type]
        return
    kept = value.half() if half and value.is_floating_point() else value
    write_lod_tensor(file, kept, as_lod(levels))  # type: ignore[arg-type]


def _refuse_existing(path: str, overwrite: bool) -> None:
    if not overwrite and Path(path).exists():
        raise EnforceNotMet(f"{path} exists already, and overwrite is false")


@operator(
    "save", outputs="kLookupTablePath?", uses=None, lod="", infer=no_inference, effects="host"
)
def save(
    X: Tensor | SelectedRows,
    *,
    file_path: str,
    overwrite: bool = True,
    save_as_fp16: bool = False,
    lod_X: Levels,
) -> None:
    """Writes X to `file_path` in Fluid's format, as float16 on request."""
    _refuse_existing(file_path, overwrite)
    write_file(file_path, lambda file: _write(file, X, lod_X, save_as_fp16), durable=False)


@operator("save_combine", outputs="Y?", uses=None, lod="", infer=no_inference, effects="host")
def save_combine(
    X: list[Tensor | SelectedRows],
    *,
    file_path: str,
    overwrite: bool = True,
    save_as_fp16: bool = False,
    save_to_memory: bool = False,
    lods_X: list[Levels],
) -> bytes | None:
    """Writes all X one after another to `file_path`, or with save_to_memory to Y, as bytes."""

    def write(file: object) -> None:
        for value, levels in zip(X, lods_X, strict=True):
            _write(file, value, levels, save_as_fp16)

    if save_to_memory:
        out = io.BytesIO()
        write(out)
        return out.getvalue()
    _refuse_existing(file_path, overwrite)
    write_file(file_path, write, durable=False)
    return None


def _placed(tensor: Tensor, device: torch.device, half: bool) -> Tensor:
    return tensor.to(device, torch.float16 if half else tensor.dtype)


@operator(
    "load", outputs="Out", uses=None, lod="", makes_lod="Out", infer=no_inference, effects="host"
)
def load(
    *,
    file_path: str,
    load_as_fp16: bool = False,
    seek: Long = -1,
    shape: Longs = (),
    device: torch.device,
) -> tuple[AnyValue, Levels]:
    """What `save` wrote to `file_path`; with `seek` a part of `shape` from that element on."""
    data = map_file(file_path)
    try:
        value, _ = decode_lod_tensor(data, 0, file_path)
    except EnforceNotMet:
        rows, end = decode_selected_rows(data, 0, file_path)
        if end != len(data):
            raise
        return SelectedRows(rows.index.to(device), rows.height(), rows.value.to(device)), ()
    tensor = _placed(value.tensor, device, load_as_fp16)
    if seek < 0:
        return tensor, value.levels
    return tensor.reshape(-1)[seek : seek + math.prod(shape)].reshape(tuple(shape)), ()


@operator(
    "load_combine",
    outputs="Out*",
    uses=None,
    lod="",
    makes_lod="Out",
    infer=no_inference,
    effects="host",
)
def load_combine(
    *,
    file_path: str,
    load_as_fp16: bool = False,
    model_from_memory: bool = False,
    device: torch.device,
    counts: Sequence[int],
) -> tuple[list[Tensor], list[Levels]]:
    """All that `save_combine` wrote to `file_path`, in that order.

    EnforceNotMet where the file holds more or fewer tensors than Out has variables.
    """
    if model_from_memory:
        raise EnforceNotMet("load_combine: refluid reads files; write the bytes to one first")
    data, position = map_file(file_path), 0
    tensors: list[Tensor] = []
    levels: list[Levels] = []
    while position < len(data):
        value, position = decode_lod_tensor(data, position, file_path)
        tensors.append(_placed(value.tensor, device, load_as_fp16))
        levels.append(value.levels)
    if len(tensors) != counts[0]:
        raise EnforceNotMet(f"{file_path} holds {len(tensors)} tensors, not {counts[0]}")
    return tensors, levels

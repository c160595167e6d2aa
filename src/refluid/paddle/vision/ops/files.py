"""Files of images, where functions run at once."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from refluid.build import at_once
from refluid.ir.variable import Variable
from refluid.paddle.tensor.creation import to_tensor

_MODES = {"unchanged": None, "gray": "L", "rgb": "RGB"}


def read_file(filename: str, name: str | None = None) -> Variable:
    """The bytes of a file, uint8 of one dimension. NotImplementedError in programs."""
    _require_at_once("read_file")
    return to_tensor(np.frombuffer(Path(filename).read_bytes(), "uint8").copy())


def decode_jpeg(x: Variable, mode: str = "unchanged", name: str | None = None) -> Variable:
    """The image (C, H, W), uint8, in a JPEG file's bytes; Pillow decodes it.

    mode: `unchanged`, `gray` or `rgb`; ValueError for others. NotImplementedError in programs.
    """
    _require_at_once("decode_jpeg")
    if mode not in _MODES:
        raise ValueError(f"The provided mode {mode!r} is not supported for JPEG files on CPUs")
    from PIL import Image

    image = Image.open(io.BytesIO(x.numpy().tobytes()))
    wanted = _MODES[mode]
    array = np.asarray(image if wanted is None else image.convert(wanted))
    planes = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    return to_tensor(np.ascontiguousarray(planes))


def _require_at_once(what: str) -> None:
    if not at_once():
        raise NotImplementedError(f"{what} reads where functions run at once, not in programs")

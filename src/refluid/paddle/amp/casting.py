"""`auto_cast`: operators that run at once take their inputs in half precision where they may."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from refluid.core.dtypes import VarType, as_dtype
from refluid.eager import current
from refluid.eager.casting import Casts
from refluid.paddle.amp.lists import LEVELS, classifier
from refluid.paddle.framework.devices import get_device

_log = logging.getLogger("refluid")


def is_float16_supported(device: str | None = None) -> bool:
    """Whether float16 is computed with on a device: on GPUs."""
    return (_device() if device is None else device).startswith("gpu")


def _device() -> str:
    backend = current()
    return get_device() if backend is None else str(backend.place.device).replace("cuda", "gpu")


def is_bfloat16_supported(device: str | None = None) -> bool:
    """Whether bfloat16 is computed with on a device: on all."""
    return True


def half_here(dtype: str) -> VarType:
    """The element type that is meant by a half one; on CPUs float16 is bfloat16, as in programs."""
    if dtype not in ("float16", "bfloat16"):
        raise ValueError("If enable amp, dtype should be 'float16' or 'bfloat16'.")
    if dtype == "float16" and not is_float16_supported():
        _say_bfloat16()
        return VarType.BF16
    return as_dtype(dtype)


@cache
def _say_bfloat16() -> None:
    _log.warning("mixed precision computes in bfloat16 here: the CPU has no fast float16 kernels")


@contextmanager
def auto_cast(
    enable: bool = True,
    custom_white_list: Iterable[str] | None = None,
    custom_black_list: Iterable[str] | None = None,
    level: str = "O1",
    dtype: str = "float16",
    use_promote: bool = True,
) -> Iterator[None]:
    """Operators within the block compute in half precision where that is fast and safe.

    level: `O1`: operators of the white list always do, those that only move or scale elements
    where they are given half ones, all others are float32. `O2`, for networks that `decorate` has
    made half: all but the black list do unless an input is float32 (`use_promote`). `OD`: only the
    white list. `O0`: none. dtype: `float16` or `bfloat16`.
    custom_white_list, custom_black_list: operators that always do, or never.

    Raises ValueError for another level or type, for overlapping lists, and in programs.
    """
    if level not in LEVELS:
        raise ValueError("level should be O0, OD, O1 or O2.")
    if not enable:
        with casting_by(None):
            yield
        return
    half = half_here(dtype)
    classify = classifier(level, custom_white_list, custom_black_list, use_promote)
    with casting_by(None if level == "O0" else Casts(half, classify)):
        yield


@contextmanager
def casting_by(casts: Casts | None) -> Iterator[None]:
    """Operators within cast as it says; None: not at all. ValueError in programs."""
    backend = current()
    if backend is None:
        raise ValueError(
            "paddle.amp.auto_cast casts what runs at once; a program is decorated by "
            "paddle.static.amp.decorate"
        )
    former, backend.casting = backend.casting, casts
    try:
        yield
    finally:
        backend.casting = former

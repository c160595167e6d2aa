"""What a program calls float32 is computed in float32."""

from __future__ import annotations

import refluid.runtime.kernels  # noqa: F401 (says so to torch)
from refluid.kernels import settings


def test_convolutions_are_float32_where_nobody_asks_for_tf32() -> None:
    off, on = ((("convolutions in TF32", wanted),) for wanted in (False, True))
    assert settings.in_force(off) and not settings.in_force(on)

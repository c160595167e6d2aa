"""Rates of matrix products: of every kernel that runs here, whatever instructions there are."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from refluid.measure import ceilings


def _refuse(*_: object) -> None:
    raise RuntimeError("could not create a primitive descriptor")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kernels_that_cannot_compute_a_type_have_no_rate(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings.onednn, "linear", _refuse)
    assert ceilings.matrix_rate(torch.device("cpu"), dtype) > 0


def test_what_is_slow_is_not_measured_at_length() -> None:
    """By a clock on which a small run takes longer than a large one may."""
    ticks = itertools.count(0.0, 10.0)
    runs = []

    def prepared(smaller: int) -> tuple[Callable[[], object], int]:
        return (lambda: runs.append(smaller)), 1000 // smaller

    rate = ceilings._rate(prepared, torch.device("cpu"), lambda: next(ticks))
    assert set(runs) == {ceilings._SMALLER}
    assert rate == 1000 // ceilings._SMALLER / 10.0


def test_bfloat16_has_a_rate_without_its_instructions() -> None:
    """oneDNN then has no product of it."""
    code = (
        "import torch; from refluid.measure.ceilings import matrix_rate;"
        "print(matrix_rate(torch.device('cpu'), torch.bfloat16))"
    )
    narrow = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | narrow, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) > 0

"""What tests of kernels have in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from refluid.kernels import machine_code


@pytest.fixture(params=[1, 2, 3])
def by_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Operators compute with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Machine code of loops is kept there, and nowhere else."""
    monkeypatch.setattr(machine_code, "_folders", lambda *_, **__: iter([tmp_path]))
    return tmp_path

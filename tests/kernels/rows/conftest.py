"""How many threads update rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from refluid.kernels.rows import updates

ALONE, SHARED = "by one thread", "shared among threads"


@pytest.fixture(params=[ALONE, SHARED])
def sharing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """By one thread, or by three, however few the rows are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if request.param == ALONE else 3)
    monkeypatch.setattr(updates, "_MUCH", 0)
    yield
    torch.set_num_threads(before)

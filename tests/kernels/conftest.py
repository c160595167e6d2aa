"""What tests of kernels have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(params=[1, 2, 3])
def by_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Operators compute with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)

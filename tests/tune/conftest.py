"""What tests of tuning share."""

from __future__ import annotations

import pytest

from refluid.tune.doctor.host import read_host
from refluid.tune.learned import Learned
from refluid.tune.tuner import _measured_rates


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """With the machine's ceilings, which are measured once."""
    found, rates = Learned(read_host(), tmp_path_factory.mktemp("learned")), _measured_rates()
    for _ in range(2):
        found.ceilings(lambda: rates)
    return found

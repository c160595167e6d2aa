"""Programs are verified before and after each pass here."""

from collections.abc import Iterator

import pytest

from refluid.core import flags


@pytest.fixture(autouse=True)
def _verified() -> Iterator[None]:
    with flags.override({"FLAGS_refluid_verify_passes": True}):
        yield

"""A cache folder of the test's own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from refluid.paddle.dataset import common


@pytest.fixture(autouse=True)
def home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Path]:
    """The cache folder; nothing is downloaded and nothing of packages is read."""
    monkeypatch.delenv("REFLUID_DOWNLOAD", raising=False)
    monkeypatch.setenv("REFLUID_DATA", str(tmp_path / "packages"))
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path / "cache"))
    caplog.set_level(logging.ERROR, "refluid")  # other checksums than the originals'
    yield tmp_path / "cache"

"""What packages carry, where it is installed: the real numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from refluid.paddle import cached_files
from refluid.paddle.dataset import mnist, uci_housing

INSTALLED = cached_files.package_data()


@pytest.fixture(autouse=True)
def _installed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFLUID_DATA", str(INSTALLED))
    assert not home.exists()


def _needs(name: str) -> pytest.MarkDecorator:
    there = (INSTALLED / name).is_dir()
    return pytest.mark.skipif(not there, reason=f"needs `python scripts/fetch_data.py {name}`")


@_needs("mnist")
def test_all_digits() -> None:
    labels = [label for _, label in mnist.test()()]
    assert len(labels) == 10_000 and labels[:5] == [7, 2, 1, 0, 4]
    image, label = next(mnist.train()())
    stroke = np.rint((image[5 * 28 + 12 :][:5] + 1) * 127.5)
    assert label == 5 and stroke.tolist() == [3, 18, 18, 18, 126]


@_needs("housing")
def test_all_houses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uci_housing, "UCI_TRAIN_DATA", None)
    monkeypatch.setattr(uci_housing, "UCI_TEST_DATA", None)
    train, test = list(uci_housing.train()()), list(uci_housing.test()())
    assert (len(train), len(test)) == (404, 102)
    assert (train[0][1].item(), test[-1][1].item()) == (24.0, 11.9)
    np.testing.assert_allclose(train[0][0][:3], [-0.0405441, 0.06636364, -0.32356227], atol=1e-6)

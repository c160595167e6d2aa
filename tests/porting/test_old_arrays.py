"""Functions of NumPy take rows of different lengths, as they did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from refluid.porting.old_names import CHANGED


@pytest.mark.parametrize("name", ["savez", "savez_compressed"])
def test_rows_of_different_lengths_are_saved(name: str, tmp_path: Path) -> None:
    save = CHANGED["numpy", name](np)
    save(tmp_path / "a.npz", [1, 2], rows=[0, np.ones(2)], same=(1.5, 2))
    with np.load(tmp_path / "a.npz", allow_pickle=True) as found:
        assert found["arr_0"].tolist() == [1, 2] and found["same"].tolist() == [1.5, 2.0]
        assert found["rows"].dtype == object and found["rows"][1].tolist() == [1.0, 1.0]


def test_one_array_is_saved_with_its_options(tmp_path: Path) -> None:
    save = CHANGED["numpy", "save"](np)
    save(tmp_path / "a.npy", [[1], [1, 2]])
    assert np.load(tmp_path / "a.npy", allow_pickle=True).tolist() == [[1], [1, 2]]
    with pytest.raises(ValueError, match="allow_pickle"):
        save(tmp_path / "b.npy", [[1], [1, 2]], allow_pickle=False)

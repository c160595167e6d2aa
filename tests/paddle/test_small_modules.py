"""`paddle.compat`, `version`, `sysconfig`, `utils`: what stands beside `paddle.fluid`."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import refluid.paddle
from refluid.paddle import compat, sysconfig, version
from refluid.paddle.utils import Ploter, image_util, preprocess_util


def test_text_and_bytes() -> None:
    assert compat.to_text(b"\xc3\xa9") == "é" and compat.to_bytes("é") == b"\xc3\xa9"
    assert compat.to_text(None) is None and compat.to_text(3) == 3
    words = [b"a", "b"]
    assert compat.to_text(words) == ["a", "b"] and words == [b"a", "b"]
    assert compat.to_text(words, inplace=True) is words and words == ["a", "b"]
    assert compat.to_bytes({"a"}, inplace=True) == {b"a"}


@pytest.mark.parametrize(
    "number, places, rounded",
    [(0.5, 0, 1.0), (-2.5, 0, -3.0), (2.4, 0, 2.0), (0.125, 2, 0.13), (25, -1, 30.0)],
)
def test_rounding_as_python_2_did(number: float, places: int, rounded: float) -> None:
    assert compat.round(number, places) == rounded


def test_the_other_names_of_compat() -> None:
    assert compat.floor_division(7, 2) == 3 and compat.long_type is int
    assert compat.get_exception_message(ValueError("why")) == "why"
    assert np.isinf(compat.round(float("inf")))


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    version.show()
    assert "full_version: 1.8.5" in capsys.readouterr().out
    assert (version.major, version.minor, version.patch) == ("1", "8", "5")
    assert version.full_version == refluid.paddle.__version__ and version.mkl() == "ON"


def test_there_are_no_headers() -> None:
    for ask in (sysconfig.get_include, sysconfig.get_lib):
        with pytest.raises(NotImplementedError, match="custom_operators"):
            ask()


def test_names_are_there_at_first_use() -> None:
    for name in ("compat", "dataset", "reader", "sysconfig", "utils", "version"):
        assert name in dir(refluid.paddle)
        assert getattr(refluid.paddle, name).__name__ == f"refluid.paddle.{name}"
    assert callable(refluid.paddle.check_import_scipy)
    refluid.paddle.check_import_scipy("posix")


def test_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib").use("Agg")
    curves = Ploter("train", "test")
    for step in range(5):
        curves.append("train", step, step**2)
    curves.plot(str(tmp_path / "x.png"))
    drawn = np.array(image.open(tmp_path / "x.png").convert("RGB"))
    assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 10
    with pytest.raises(KeyError, match="no curve 'other': there are train, test"):
        curves.append("other", 0, 0)
    curves.reset()
    assert not curves.__plot_data__["train"].step
    monkeypatch.setenv("DISABLE_PLOT", "True")
    Ploter("train").plot(str(tmp_path / "none.png"))
    assert not (tmp_path / "none.png").exists()


def test_pictures_with_channels_first(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    picture = np.arange(3 * 4 * 6, dtype=np.float32).reshape(3, 4, 6)
    assert (image_util.crop_img(picture, 2) == picture[:, 1:3, 2:4]).all()
    wide = image_util.crop_img(picture, 6)
    assert wide.shape == (3, 6, 6) and (wide[:, 1:5] == picture).all() and not wide[:, 0].any()
    np.random.seed(0)
    assert image_util.preprocess_img(picture, np.float32(1), 3, True).shape == (27,)
    file = io.BytesIO()
    image.fromarray(np.zeros((20, 10, 3), np.uint8)).save(file, "PNG")
    assert image_util.decode_jpeg(file.getvalue()).shape == (3, 20, 10)
    (tmp_path / "x.png").write_bytes(file.getvalue())
    opened = image_util.load_image(str(tmp_path / "x.png"), is_color=False)
    assert opened.mode == "L" and image_util.resize_image(opened, 5).size == (5, 10)
    np.savez(tmp_path / "mean.npz", data_mean=np.arange(48))
    mean = image_util.load_meta(str(tmp_path / "mean.npz"), 4, 2)
    assert mean.shape == (3, 2, 2) and mean[0].tolist() == [[5, 6], [9, 10]]
    parts = image_util.oversample(np.zeros((2, 8, 8, 3)), np.array([4, 4]))
    assert parts.shape == (20, 4, 4, 3)
    turned = image_util.ImageTransformer((2, 0, 1), (2, 1, 0), [1, 2, 3])
    values = turned.transformer(np.arange(12.0).reshape(2, 2, 3))
    assert values[:, 0, 0].tolist() == [2 - 1, 1 - 2, 0 - 3]


def test_lists_of_files(tmp_path: Path) -> None:
    for name in ("b.JPG", "a.png", "c.txt", ".hidden", "d~"):
        (tmp_path / name).touch()
    for name in ("dogs", "cats"):
        (tmp_path / name).mkdir()
    assert preprocess_util.list_images(str(tmp_path)) == ["a.png", "b.JPG"]
    assert preprocess_util.list_files(str(tmp_path)) == ["a.png", "b.JPG", "c.txt"]
    assert preprocess_util.get_label_set_from_dir(str(tmp_path)) == {"cats": 0, "dogs": 1}
    preprocess_util.save_list(["x", "y"], str(tmp_path / "list"))
    assert (tmp_path / "list").read_text() == "x\ny\n"

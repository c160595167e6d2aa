"""Pictures as OpenCV handles them, with Pillow and torch in its place."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest

from refluid.paddle.dataset import image
from tests.paddle.dataset.archives import write_tar

PIL = pytest.importorskip("PIL.Image")


def _png(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    PIL.fromarray(array).save(file, "PNG")
    return file.getvalue()


RED = np.zeros((4, 6, 3), np.uint8) + np.array([200, 0, 10], np.uint8)


def test_colours_are_blue_green_red(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(_png(RED))
    assert image.load_image(str(tmp_path / "x.png"))[0, 0].tolist() == [10, 0, 200]
    grey = image.load_image_bytes(_png(RED), is_color=False)
    assert grey.shape == (4, 6) and abs(int(grey[0, 0]) - 61) <= 1


# `cv2.resize(picture, (w, h), interpolation=cv2.INTER_CUBIC)` of OpenCV 4 for this picture.
PICTURE = (np.arange(48).reshape(6, 8) * 37 % 256).astype(np.uint8)
SMALLER = [[31, 109, 209, 54], [115, 219, 46, 90], [211, 58, 96, 172]]
LARGER = [
    [0, 20, 53, 84, 113, 140, 167, 236, 177, 0],
    [19, 44, 77, 108, 137, 162, 235, 168, 47, 21],
    [54, 79, 112, 142, 174, 221, 189, 59, 0, 63],
    [84, 109, 142, 175, 205, 220, 50, 2, 69, 92],
    [111, 136, 167, 217, 229, 49, 23, 57, 94, 119],
    [142, 163, 231, 213, 75, 21, 50, 93, 124, 149],
    [177, 212, 206, 108, 1, 62, 96, 126, 159, 184],
    [201, 255, 119, 0, 64, 90, 119, 150, 183, 208],
]


@pytest.mark.parametrize("expected", [SMALLER, LARGER])
def test_scaling_is_opencvs(expected: list[list[int]]) -> None:
    scaled = image.resize_short(PICTURE, len(expected)).astype(int)
    assert scaled.shape == np.shape(expected)
    assert np.abs(scaled - np.array(expected)).max() <= 1  # OpenCV computes with 11 bits
    colours = image.resize_short(np.dstack([PICTURE, PICTURE // 2, PICTURE]), len(expected))
    assert (colours[:, :, 0] == scaled).all() and colours.dtype == np.uint8


@pytest.mark.parametrize("shape, scaled", [((10, 20, 3), (5, 10, 3)), ((20, 10), (10, 5))])
def test_the_shorter_side(shape: tuple[int, ...], scaled: tuple[int, ...]) -> None:
    assert image.resize_short(np.zeros(shape, np.uint8), 5).shape == scaled


def test_crops_and_mirrors() -> None:
    picture = np.arange(60).reshape(4, 5, 3)
    assert (image.center_crop(picture, 2) == picture[1:3, 1:3]).all()
    assert (image.left_right_flip(picture) == picture[:, ::-1]).all()
    np.random.seed(0)
    corners = {int(image.random_crop(picture, 3)[0, 0, 0]) for _ in range(50)}
    assert corners == {0, 3, 6, 15, 18, 21}
    assert image.to_chw(picture).shape == (3, 4, 5)
    with pytest.raises(ValueError, match="no dimensions"):
        image.to_chw(picture[0])


def test_what_a_network_reads(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(_png(RED))
    plain = image.load_and_transform(str(tmp_path / "x.png"), 8, 6, False, mean=[1.0, 2.0, 3.0])
    assert plain.dtype == np.float32 and plain.shape == (3, 6, 6)
    np.testing.assert_allclose(plain[:, 0, 0], [9, -2, 197])
    np.random.seed(1)
    ramp = np.tile(np.arange(8, dtype=np.uint8) * 20, (8, 1))
    ways = {
        bool(np.diff(image.simple_transform(ramp, 8, 8, True, is_color=False)[0])[0] > 0)
        for _ in range(20)
    }
    assert ways == {True, False}


def test_batches_of_an_archive(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "x.tgz", {"a": b"A", "b": b"B", "c": b"C", "d": b"D"})
    listing = image.batch_images_from_tar(str(archive), "train", {"a": 1, "c": 3, "d": 4}, 2)
    paths = Path(listing).read_text().split()
    batches = [pickle.loads(Path(path).read_bytes()) for path in paths]
    assert batches == [{"label": [1, 3], "data": [b"A", b"C"]}, {"label": [4], "data": [b"D"]}]
    archive.unlink()
    assert image.batch_images_from_tar(str(archive), "train", {}, 2) == listing

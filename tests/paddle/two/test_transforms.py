"""Transforms of images: what scenarios recorded of Paddle don't show."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refluid.core.places import CPUPlace
from refluid.eager import mode
from refluid.paddle.vision import transforms
from refluid.paddle.vision.transforms import of_arrays
from tests.paddle.two.scenarios.images import _image

ARRAY = _image()


@pytest.mark.parametrize(
    "change",
    [
        lambda x: transforms.resize(x, (9, 21)),
        lambda x: transforms.rotate(x, 30, "bilinear", expand=True),
        lambda x: transforms.affine(x, 20, [2, 3], 0.8, [5, 10]),
        lambda x: transforms.perspective(
            x, [[0, 0], [17, 0], [17, 12], [0, 12]], [[3, 1], [15, 2], [14, 11], [2, 10]]
        ),
    ],
)
def test_arrays_are_changed_by_pillow_without_opencv(
    change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_arrays, "_cv2", lambda: None)
    found = change(ARRAY)
    assert np.array_equal(found, np.asarray(change(Image.fromarray(ARRAY))))
    assert not np.array_equal(found, ARRAY)
    gray = ARRAY[..., :1]
    assert change(gray).shape == (*found.shape[:2], 1)


def test_affine_turns_arrays_about_their_middle() -> None:
    """As Pillow's images; Paddle turns arrays about their first element."""
    odd = np.ascontiguousarray(ARRAY[:, :17])  # so that no element lies between two
    by_arrays = transforms.affine(odd, 90, [0, 0], 1.0, [0, 0])
    by_pillow = np.asarray(transforms.affine(Image.fromarray(odd), 90, [0, 0], 1.0, [0, 0]))
    assert np.array_equal(by_arrays, by_pillow)


def test_saturation_of_arrays() -> None:
    plain = transforms.SaturationTransform((0.0, 0.0))(ARRAY)
    assert (plain[..., 0] == plain[..., 2]).all()
    assert (plain.std(-1) == 0).all()
    jittered = transforms.ColorJitter(0.3, 0.3, 0.3)(ARRAY)
    assert jittered.shape == ARRAY.shape
    assert jittered.dtype == np.uint8


def test_keys_name_the_parts_of_a_sample() -> None:
    both = transforms.RandomCrop(5, keys=("image", "image"))
    random.seed(1)
    first, second, label = both((ARRAY, ARRAY.copy(), 7))
    assert np.array_equal(first, second)
    assert label == 7
    kept = transforms.Resize((4, 4), keys=("image", None))
    image, other = kept((Image.fromarray(ARRAY), ARRAY))
    assert image.size == (4, 4)
    assert other is ARRAY
    with pytest.raises(NotImplementedError, match="'colors'"):
        transforms.Resize(4, keys=("colors",))((ARRAY,))

    class Flip(transforms.BaseTransform):  # type: ignore[misc, name-defined]
        def _apply_image(self, image: Any) -> Any:
            return image[:, ::-1]

        def _apply_boxes(self, boxes: Any) -> Any:
            return 18 - boxes[:, [2, 1, 0, 3]]

    flipped, boxes = Flip(("image", "boxes"))((ARRAY, np.array([[1, 2, 5, 6]])))
    assert np.array_equal(flipped[:, 0], ARRAY[:, -1])
    assert boxes.tolist() == [[13, 16, 17, 12]]


def test_a_tensor_can_be_erased_in_place() -> None:
    with mode.eager(CPUPlace()):
        image = transforms.to_tensor(ARRAY)
        other = transforms.erase(image, 1, 2, 3, 4, 0.5)
        assert float(image[0, 1, 2]) != 0.5
        assert (other.numpy()[:, 1:4, 2:6] == 0.5).all()
        transforms.erase(image, 1, 2, 3, 4, 0.5, inplace=True)
        assert np.array_equal(image.numpy(), other.numpy())


def test_errors() -> None:
    with pytest.raises(TypeError, match="img should be PIL Image"):
        transforms.hflip([[1]])
    with pytest.raises(ValueError, match="larger than input image"):
        transforms.RandomCrop(50)(ARRAY)
    with pytest.raises(ValueError, match="hue_factor"):
        transforms.adjust_hue(ARRAY, 0.7)
    with pytest.raises(ValueError, match="non negative"):
        transforms.BrightnessTransform(-1)
    with pytest.raises(ValueError, match="between"):
        transforms.HueTransform(0.7)
    with pytest.raises(ValueError, match="2, or 4 element"):
        transforms.pad(ARRAY, (1, 2, 3))
    with pytest.raises(ValueError, match="CHW or HWC"):
        transforms.to_tensor(ARRAY, "WHC")

"""Images changed, with the same seeds: Pillow's, arrays, and tensors."""

import random

import numpy as np


def _image(shape=(13, 18, 3)):
    rows, columns = np.meshgrid(np.arange(shape[0]), np.arange(shape[1]), indexing="ij")
    waves = [np.sin(rows / (3 + n)) * np.cos(columns / (4 - n)) for n in range(3)]
    noise = np.random.RandomState(2).uniform(-0.2, 0.2, (*shape[:2], 3))
    return (127 + 105 * (np.stack(waves, -1) + noise)).clip(0, 255).astype("uint8")[..., : shape[2]]


def _as(kind, paddle, array):
    if kind == "pillow":
        from PIL import Image

        return Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)
    if kind == "tensor":
        return paddle.to_tensor((array.astype("float32") / 255).transpose(2, 0, 1).copy())
    return array


def _arrays(found):
    return found.numpy() if hasattr(found, "numpy") else np.asarray(found)


def _run(kind, change, array):
    def run(paddle):
        paddle.disable_static()
        random.seed(7)
        np.random.seed(7)
        image = _as(kind, paddle, array)
        found = [change(paddle.vision.transforms, image) for _ in range(2)]
        return {f"out{n}": _arrays(one) for n, one in enumerate(found)}

    return run


CHANGES = {
    "resize": lambda t, x: t.resize(x, (9, 21)),
    "resize_edge": lambda t, x: t.Resize(12, "nearest")(x),
    "resize_bicubic": lambda t, x: t.Resize(17, "bicubic")(x),
    "crop": lambda t, x: t.crop(x, 3, 5, 8, 9),
    "center": lambda t, x: t.CenterCrop((8, 13))(x),
    "flips": lambda t, x: t.vflip(t.hflip(x)),
    "random_flips": lambda t, x: t.RandomVerticalFlip(0.6)(t.RandomHorizontalFlip()(x)),
    "pad": lambda t, x: t.pad(x, (1, 2, 3, 4), 7),
    "pad_edge": lambda t, x: t.Pad((2, 3), padding_mode="edge")(x),
    "pad_reflect": lambda t, x: t.pad(x, 3, padding_mode="reflect"),
    "random_crop": lambda t, x: t.RandomCrop(11, padding=2)(x),
    "random_crop_needed": lambda t, x: t.RandomCrop((15, 9), pad_if_needed=True)(x),
    "random_resized": lambda t, x: t.RandomResizedCrop((14, 10))(x),
    "brightness": lambda t, x: t.adjust_brightness(x, 1.4),
    "contrast": lambda t, x: t.adjust_contrast(x, 0.6),
    "hue": lambda t, x: t.adjust_hue(x, 0.2),
    "hue_back": lambda t, x: t.adjust_hue(x, -0.3),
    "random_brightness": lambda t, x: t.BrightnessTransform(0.4)(x),
    "random_contrast": lambda t, x: t.ContrastTransform(0.4)(x),
    "random_hue": lambda t, x: t.HueTransform(0.3)(x),
    "center_by_function": lambda t, x: t.center_crop(x, (7, 12)),
    "saturation": lambda t, x: t.SaturationTransform(0.4)(x),
    "jitter": lambda t, x: t.ColorJitter(0.4, 0.4, 0.4)(x),
    "gray": lambda t, x: t.to_grayscale(x),
    "gray3": lambda t, x: t.Grayscale(3)(x),
    "rotate": lambda t, x: t.rotate(x, 33),
    "rotate_smooth": lambda t, x: t.rotate(x, -50, "bilinear", fill=50),
    "rotate_expand": lambda t, x: t.rotate(x, 20, expand=True),
    "rotate_center": lambda t, x: t.rotate(x, 20, center=(4, 6)),
    "random_rotation": lambda t, x: t.RandomRotation(45)(x),
    "affine": lambda t, x: t.affine(x, 20, [2, 3], 0.8, [5, 10]),
    "affine_smooth": lambda t, x: t.affine(x, -40, [2, -3], 1.2, 10, "bilinear"),
    "random_affine": lambda t, x: t.RandomAffine(30, (0.2, 0.1), (0.7, 1.2), [3, 9])(x),
    "perspective": lambda t, x: t.perspective(
        x, [[0, 0], [17, 0], [17, 12], [0, 12]], [[3, 1], [15, 2], [14, 11], [2, 10]]
    ),
    "perspective_smooth": lambda t, x: t.perspective(
        x, [[0, 0], [17, 0], [17, 12], [0, 12]], [[3, 1], [15, 2], [14, 11], [2, 10]], "bilinear"
    ),
    "random_perspective": lambda t, x: t.RandomPerspective(0.8)(x),
    "erase": lambda t, x: t.erase(x, 2, 3, 5, 6, 9) if isinstance(x, np.ndarray) else x,
    "random_erasing": lambda t, x: t.RandomErasing(0.9)(x),
    "to_tensor": lambda t, x: t.to_tensor(x),
    "to_tensor_rows": lambda t, x: t.ToTensor("HWC")(x),
    "transpose": lambda t, x: t.Transpose()(x),
    "normalize": lambda t, x: t.Normalize([120, 110, 100], [50, 60, 70])(t.Transpose()(x)),
    "normalize_rows": lambda t, x: t.normalize(x, [0.4, 0.5, 0.6], [0.2, 0.3, 0.4], "HWC"),
    "composed": lambda t, x: t.Compose([t.Resize(14), t.RandomCrop(12), t.ToTensor()])(x),
}
# What only some kinds of images take in Paddle.
NOT = {
    # Which neighbour is nearest to a tensor's point is a matter of the last bit in perspective.
    "tensor": {
        *("to_tensor", "to_tensor_rows", "transpose", "composed", "normalize", "normalize_rows"),
        *("perspective", "random_perspective"),
    },
    # Paddle turns arrays about their first element, and draws the factor of saturation anew.
    "array": {"affine", "affine_smooth", "random_affine", "saturation", "jitter"},
    "pillow": {"erase"},
}
SCENARIOS = {
    f"{name}/{kind}": _run(kind, change, _image())
    for kind, left_out in NOT.items()
    for name, change in CHANGES.items()
    if name not in left_out
}
SCENARIOS |= {
    f"{name}/one_channel": _run("array", CHANGES[name], _image((13, 18, 1)))
    for name in ("crop", "pad", "to_tensor", "transpose")
}
# Arrays are changed by OpenCV, as in Paddle, where it is installed; else by Pillow.
_BY_OPENCV = (
    *("resize", "resize_edge", "resize_bicubic", "random_resized", "hue", "hue_back", "rotate"),
    *("rotate_smooth", "rotate_expand", "rotate_center", "random_rotation", "perspective"),
    *("perspective_smooth", "random_perspective", "composed"),
)
NEEDS = {f"{name}/array": "cv2" for name in _BY_OPENCV}

"""Functions on pictures that `scipy.misc` had until SciPy 1.3, by Pillow."""

from __future__ import annotations

from typing import Any

import numpy as np

_RESAMPLING = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "cubic": 3}


def bytescale(
    data: Any, cmin: Any = None, cmax: Any = None, high: int = 255, low: int = 0
) -> np.ndarray[Any, Any]:
    """Values from cmin to cmax (else the least and the most) as bytes from low to high."""
    array = np.asarray(data)
    if array.dtype == np.uint8:
        return array
    least = array.min() if cmin is None else cmin
    most = array.max() if cmax is None else cmax
    scaled = (array - least) * ((high - low) / ((most - least) or 1)) + low
    found: np.ndarray[Any, Any] = (np.clip(scaled, low, high) + 0.5).astype(np.uint8)
    return found


def toimage(arr: Any, mode: Any = None, **options: Any) -> Any:
    """A picture of Pillow's of (H, W), (H, W, 3 or 4) or (3 or 4, H, W) values."""
    from PIL import Image

    array = bytescale(arr, options.get("cmin"), options.get("cmax"))
    if array.ndim == 3 and array.shape[-1] not in (3, 4) and array.shape[0] in (3, 4):
        array = array.transpose(1, 2, 0)
    picture = Image.fromarray(array)
    return picture.convert(mode) if mode is not None else picture


def imsave(name: Any, arr: Any, format: Any = None) -> None:
    """Writes a picture to a file."""
    toimage(arr).save(name, *([] if format is None else [format]))


def imread(name: Any, flatten: bool = False, mode: Any = None) -> np.ndarray[Any, Any]:
    """The values of a picture in a file; flatten: as one channel of float32."""
    from PIL import Image

    with Image.open(name) as picture:
        if flatten:
            return np.asarray(picture.convert("F"))
        return np.array(picture.convert(mode) if mode is not None else picture)


def imresize(
    arr: Any, size: Any, interp: str = "bilinear", mode: Any = None
) -> np.ndarray[Any, Any]:
    """A picture of another size: in percent, as a fraction, or as (height, width)."""
    picture = toimage(arr, mode)
    if isinstance(size, tuple | list | np.ndarray):
        height, width = (int(one) for one in size)
    else:
        part = size / 100.0 if isinstance(size, int) else size
        width, height = (int(one * part) for one in picture.size)
    return np.array(picture.resize((width, height), _RESAMPLING[interp]))


def imrotate(arr: Any, angle: float, interp: str = "bilinear") -> np.ndarray[Any, Any]:
    """A picture turned counter-clockwise."""
    return np.array(toimage(arr).rotate(angle, resample=_RESAMPLING[interp]))

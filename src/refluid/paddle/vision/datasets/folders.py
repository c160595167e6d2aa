"""Images in folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from refluid.feed.datasets import Dataset
from refluid.paddle.vision.images import get_image_backend, image_load

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
Valid = Callable[[str], bool]


def default_loader(path: str) -> Any:
    """An image in RGB: Pillow's, or an array with the backend `cv2`."""
    if get_image_backend() == "cv2":
        return np.ascontiguousarray(image_load(path)[..., ::-1])
    return image_load(path, "pil").convert("RGB")


def _files(root: str, is_valid: Valid) -> Iterator[str]:
    """Paths of a folder's files and of those in folders below, in order."""
    for folder, below, names in sorted(os.walk(os.path.expanduser(root), followlinks=True)):
        del below
        for name in sorted(names):
            path = os.path.join(folder, name)
            if is_valid(path):
                yield path


def _validity(extensions: Sequence[str] | None, is_valid_file: Valid | None) -> Valid:
    if is_valid_file is not None:
        return is_valid_file
    ends = IMG_EXTENSIONS if extensions is None else tuple(extensions)
    return lambda path: path.lower().endswith(ends)


def _nothing(kind: str, root: str, extensions: Sequence[str] | None) -> RuntimeError:
    ends = ",".join(IMG_EXTENSIONS if extensions is None else extensions)
    return RuntimeError(
        f"Found 0 {kind} in subfolders of: {root}\nSupported extensions are: {ends}"
    )


class DatasetFolder(Dataset):
    """(sample, number of its class) of the files in a folder's folders, one for each class.

    loader: reads a file; images in RGB by default. extensions: of the files that count, those of
    images by default. is_valid_file: says which count instead. transform: what is done to a
    sample. RuntimeError where no file counts.
    """

    def __init__(
        self,
        root: str,
        loader: Callable[[str], Any] | None = None,
        extensions: Sequence[str] | None = None,
        transform: Callable[[Any], Any] | None = None,
        is_valid_file: Valid | None = None,
    ) -> None:
        self.root, self.transform, self.extensions = root, transform, extensions
        self.loader = default_loader if loader is None else loader
        self.classes = sorted(one.name for one in os.scandir(root) if one.is_dir())
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        is_valid = _validity(extensions, is_valid_file)
        self.samples = [
            (path, number)
            for name, number in self.class_to_idx.items()
            for path in _files(os.path.join(root, name), is_valid)
        ]
        if not self.samples:
            raise _nothing("directories", root, extensions)
        self.targets = [number for _, number in self.samples]

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, target = self.samples[index]
        sample = self.loader(path)
        return sample if self.transform is None else self.transform(sample), target

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(Dataset):
    """[sample] of the files in a folder and those below; arguments as of `DatasetFolder`."""

    def __init__(
        self,
        root: str,
        loader: Callable[[str], Any] | None = None,
        extensions: Sequence[str] | None = None,
        transform: Callable[[Any], Any] | None = None,
        is_valid_file: Valid | None = None,
    ) -> None:
        self.root, self.transform, self.extensions = root, transform, extensions
        self.loader = default_loader if loader is None else loader
        self.samples = [*_files(root, _validity(extensions, is_valid_file))]
        if not self.samples:
            raise _nothing("files", root, extensions)

    def __getitem__(self, index: int) -> list[Any]:
        sample = self.loader(self.samples[index])
        return [sample if self.transform is None else self.transform(sample)]

    def __len__(self) -> int:
        return len(self.samples)

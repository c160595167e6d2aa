"""Data sets of images, from small files of the same kinds as the real ones."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refluid.core.places import CPUPlace
from refluid.eager import mode
from refluid.paddle.io import DataLoader
from refluid.paddle.vision import datasets, transforms
from refluid.paddle.vision.images import set_image_backend

RANDOM = np.random.RandomState(2)


def _pixels(*shape: int) -> Any:
    return RANDOM.randint(0, 256, shape).astype("uint8")


def _picture(kind: str, *shape: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(_pixels(*shape)).save(file, kind)
    return file.getvalue()


def _archive(path: Path, files: Mapping[str, bytes]) -> str:
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as packed:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return str(path)


def _idx(path: Path, array: Any) -> str:
    sizes = np.array(array.shape, ">u4").tobytes()
    head = b"\0\0\x08" + bytes([array.ndim])
    path.write_bytes(gzip.compress(head + sizes + array.tobytes()))
    return str(path)


@pytest.mark.parametrize("kind", ["MNIST", "FashionMNIST"])
def test_digits(kind: str, tmp_path: Path) -> None:
    images, labels = _pixels(5, 28, 28), np.arange(5, dtype="uint8")
    files = _idx(tmp_path / "images.gz", images), _idx(tmp_path / "labels.gz", labels)
    made = getattr(datasets, kind)(*files)
    image, label = made[3]
    assert (len(made), image.size, image.mode, label.tolist()) == (5, (28, 28), "L", [3])
    assert np.array_equal(np.asarray(image), images[3])
    image, label = getattr(datasets, kind)(*files, mode="test", backend="cv2")[3]
    assert image.dtype == np.float32
    assert np.array_equal(image, images[3])
    steps = transforms.Compose([transforms.ToTensor(), transforms.Normalize([127.5], [127.5])])
    with mode.eager(CPUPlace()):
        image, _ = getattr(datasets, kind)(*files, transform=steps, backend="cv2")[1]
        assert image.shape == [1, 28, 28]
        np.testing.assert_allclose(image.numpy()[0], images[1] / 127.5 - 1, atol=1e-6)


@pytest.mark.parametrize("kind", ["Cifar10", "Cifar100"])
def test_photographs(kind: str, tmp_path: Path) -> None:
    ten = kind == "Cifar10"
    names = ("data_batch_1", "data_batch_2", "test_batch") if ten else ("train", "test")
    batches = {
        f"cifar/{name}": {
            "data": _pixels(2, 3072),
            "labels" if ten else "fine_labels": [number, number + 5],
        }
        for number, name in enumerate(names)
    }
    files = {name: pickle.dumps(batch, 2) for name, batch in batches.items()}
    path = _archive(tmp_path / "cifar.tgz", files)
    made = getattr(datasets, kind)(path)
    assert len(made) == (4 if ten else 2)
    image, label = made[1]
    wanted = batches[f"cifar/{names[0]}"]["data"][1].reshape(3, 32, 32).transpose(1, 2, 0)
    assert np.array_equal(np.asarray(image), wanted)
    assert (label.dtype, int(label)) == (np.int64, 5)
    test = getattr(datasets, kind)(path, "test", backend="cv2")
    assert (len(test), test[0][0].shape, int(test[0][1])) == (2, (32, 32, 3), len(names) - 1)


def test_flowers(tmp_path: Path) -> None:
    from scipy.io import savemat

    pictures = {f"jpg/image_{n:05d}.jpg": _picture("JPEG", 6 + n, 8, 3) for n in range(1, 7)}
    archive = _archive(tmp_path / "102flowers.tgz", pictures)
    labels, lists = str(tmp_path / "labels.mat"), str(tmp_path / "setid.mat")
    savemat(labels, {"labels": [[11, 12, 13, 14, 15, 16]]})
    savemat(lists, {"tstid": [[2, 4, 6]], "trnid": [[1, 3]], "valid": [[5]]})
    made = datasets.Flowers(archive, labels, lists)
    image, label = made[1]
    assert (len(made), image.size, label.tolist()) == (3, (8, 10), [14])
    (batch,) = DataLoader(
        datasets.Flowers(archive, labels, lists, "test", transforms.Resize((4, 4)), backend="cv2"),
        batch_size=2,
        return_list=True,
        num_workers=0,
        places=CPUPlace(),
    )
    assert [np.asarray(one).shape for one in batch] == [(2, 4, 4, 3), (2, 1)]
    assert np.asarray(batch[1]).ravel().tolist() == [11, 13]


def test_voc2012(tmp_path: Path) -> None:
    base = "VOCdevkit/VOC2012/"
    files = {f"{base}ImageSets/Segmentation/{name}.txt": b"a\nb\n" for name in ("trainval", "val")}
    for name in "ab":
        files[f"{base}JPEGImages/{name}.jpg"] = _picture("JPEG", 5, 7, 3)
        files[f"{base}SegmentationClass/{name}.png"] = _picture("PNG", 5, 7)
    made = datasets.VOC2012(_archive(tmp_path / "voc.tar", files))
    image, classes = made[1]
    assert (len(made), image.size, classes.size) == (2, (7, 5), (7, 5))
    again = pickle.loads(pickle.dumps(made))
    assert np.array_equal(np.asarray(again[1][1]), np.asarray(classes))
    assert datasets.VOC2012(made.data_file, "valid", backend="cv2")[0][1].shape == (5, 7)


def test_folders(tmp_path: Path) -> None:
    for name in ("dog/1.png", "cat/0.png", "cat/deep/x.jpg", "cat/1.png", "cat/no.txt"):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_picture("PNG", 6, 7) if path.suffix == ".png" else b"x")
    (tmp_path / "tree/cat/deep/x.jpg").write_bytes(_picture("JPEG", 6, 7, 3))
    root = str(tmp_path / "tree")
    made = datasets.DatasetFolder(root)
    assert made.classes == ["cat", "dog"]
    assert made.class_to_idx == {"cat": 0, "dog": 1}
    assert [Path(path).name for path, _ in made.samples] == ["0.png", "1.png", "x.jpg", "1.png"]
    assert made.targets == [0, 0, 0, 1]
    image, target = made[3]
    assert (image.mode, image.size, target) == ("RGB", (7, 6), 1)
    flat = datasets.ImageFolder(root, is_valid_file=lambda path: path.endswith("1.png"))
    assert len(flat) == 2
    assert flat[0][0].size == (7, 6)
    sizes = datasets.ImageFolder(root, extensions=(".jpg",), transform=lambda one: one.size)
    assert sizes[0] == [(7, 6)]
    (tmp_path / "tree2" / "a").mkdir(parents=True)
    for kind in (datasets.DatasetFolder, datasets.ImageFolder):
        with pytest.raises(RuntimeError, match="Found 0"):
            kind(str(tmp_path / "tree2"))


def test_errors() -> None:
    with pytest.raises(AssertionError, match="but got valid"):
        datasets.MNIST(mode="valid")
    with pytest.raises(AssertionError, match="image_path is not set and downloading"):
        datasets.MNIST(download=False)
    with pytest.raises(AssertionError, match="data_file is not set"):
        datasets.Cifar10(download=False)
    with pytest.raises(ValueError, match=r"\['pil', 'cv2'\], but got zz"):
        datasets.Cifar100(download=False, backend="zz")
    set_image_backend("tensor")
    try:
        with pytest.raises(ValueError, match="but got tensor"):
            datasets.Flowers()
    finally:
        set_image_backend("pil")

"""Digits, small photographs, flowers and classes of pixels, read from archives made here."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest

from refluid.paddle.cached_files import DataMissing
from refluid.paddle.dataset import cifar, flowers, mnist, voc2012
from tests.paddle.dataset.archives import write, write_gz, write_tar

DIGITS = np.arange(5 * 784, dtype=np.uint8).reshape(5, 28, 28)


def _idx(array: np.ndarray) -> bytes:
    sizes = np.array(array.shape, ">u4").tobytes()
    return b"\0\0\x08" + bytes([array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def _write_digits(home: Path) -> None:
    write_gz(home / "mnist" / "train-images-idx3-ubyte.gz", _idx(DIGITS))
    write_gz(home / "mnist" / "train-labels-idx1-ubyte.gz", _idx(np.arange(5)))


def test_digits(home: Path) -> None:
    _write_digits(home)
    samples = list(mnist.train()())
    image, label = samples[3]
    assert (image.shape, image.dtype, label, type(label)) == ((784,), np.float32, 3, int)
    np.testing.assert_allclose(image, DIGITS[3].ravel() / 127.5 - 1, atol=1e-6)
    assert image.min() == -1 and image.max() == 1 and len(samples) == 5


def test_digits_of_the_package(tmp_path: Path) -> None:
    folder = tmp_path / "packages" / "mnist"
    write(folder / "t10k-images-idx3-ubyte", _idx(DIGITS))
    write(folder / "t10k-labels-idx1-ubyte", _idx(np.arange(5)))
    assert [label for _, label in mnist.test()()] == [0, 1, 2, 3, 4]
    with pytest.raises(DataMissing) as told:
        mnist.train()
    assert "fetch_data.py mnist" in "".join(told.value.__notes__)


def test_damaged_digits(home: Path) -> None:
    _write_digits(home)
    write_gz(home / "mnist" / "train-images-idx3-ubyte.gz", _idx(DIGITS)[:-1])
    with pytest.raises(DataMissing, match="damaged"):
        next(mnist.train()())


def _batch(first: int, labels: str) -> bytes:
    data = np.full((2, 3072), first, np.uint8)
    return pickle.dumps({"data": data, labels: [first, first + 1]}, protocol=2)


def test_small_photographs(home: Path) -> None:
    files = {
        "cifar-10-batches-py/data_batch_1": _batch(10, "labels"),
        "cifar-10-batches-py/data_batch_2": _batch(20, "labels"),
        "cifar-10-batches-py/test_batch": _batch(30, "labels"),
    }
    write_tar(home / "cifar" / "cifar-10-python.tar.gz", files)
    train = list(cifar.train10()())
    assert [label for _, label in train] == [10, 11, 20, 21]
    assert train[0][0].dtype == np.float32 and train[0][0].shape == (3072,)
    assert train[0][0][0] == np.float32(10 / 255)
    assert [label for _, label in cifar.test10()()] == [30, 31]
    endless = cifar.test10(cycle=True)()
    assert [next(endless)[1] for _ in range(5)] == [30, 31, 30, 31, 30]


def test_photographs_of_100_kinds(home: Path) -> None:
    files = {"cifar-100-python/train": _batch(1, "fine_labels")}
    files["cifar-100-python/test"] = _batch(5, "fine_labels")
    write_tar(home / "cifar" / "cifar-100-python.tar.gz", files)
    assert [label for _, label in cifar.train100()()] == [1, 2]
    assert [label for _, label in cifar.test100()()] == [5, 6]


def test_pickles_with_code_are_refused(home: Path) -> None:
    evil = b"cos\nsystem\n(S'true'\ntR."
    write_tar(home / "cifar" / "cifar-10-python.tar.gz", {"x/data_batch_1": evil})
    with pytest.raises(Exception, match="cannot be loaded as pickled arrays"):
        list(cifar.train10()())


def _jpeg(colour: tuple[int, int, int], size: tuple[int, int] = (300, 260)) -> bytes:
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.new("RGB", size, colour).save(file, "JPEG", quality=95)
    return file.getvalue()


def test_flowers(home: Path) -> None:
    scipy_io = pytest.importorskip("scipy.io")
    colours = [(250, 0, 0), (0, 250, 0), (0, 0, 250), (250, 250, 250)]
    pictures = {f"jpg/image_{n:05d}.jpg": _jpeg(one) for n, one in enumerate(colours, 1)}
    write_tar(home / "flowers" / "102flowers.tgz", pictures)
    labels, lists = io.BytesIO(), io.BytesIO()
    scipy_io.savemat(labels, {"labels": [[77, 5, 102, 1]]})
    scipy_io.savemat(lists, {"tstid": [[3, 1]], "trnid": [[2]], "valid": [[4]]})
    write(home / "flowers" / "imagelabels.mat", labels.getvalue())
    write(home / "flowers" / "setid.mat", lists.getvalue())
    train = list(flowers.train(use_xmap=False)())
    assert [label for _, label in train] == [76, 101]
    picture = train[0][0].reshape(3, 224, 224)
    assert picture.dtype == np.float32
    mean = picture.mean(axis=(1, 2))
    np.testing.assert_allclose(mean, [0 - 103.94, 0 - 116.78, 250 - 123.68], atol=4)
    assert sorted(label for _, label in flowers.test()()) == [4]
    assert [label for _, label in flowers.valid(mapper=lambda sample: sample)()] == [0]


def test_classes_of_pixels(home: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    classes = image.new("P", (30, 20), 7)
    classes.putpalette([0] * 768)
    classes.save(file, "PNG")
    lists = {"trainval": b"a\nb\n", "train": b"a\n", "val": b"b\n"}
    files = {voc2012.SET_FILE.format(name): text for name, text in lists.items()}
    for name in "ab":
        files[voc2012.DATA_FILE.format(name)] = _jpeg((9, 9, 9), (30, 20))
        files[voc2012.LABEL_FILE.format(name)] = file.getvalue()
    write_tar(home / "voc2012" / "VOCtrainval_11-May-2012.tar", files, "w")
    samples = list(voc2012.train()())
    assert len(samples) == 2 and samples[0][0].shape == (20, 30, 3)
    assert samples[0][1].shape == (20, 30) and (samples[0][1] == 7).all()
    assert len(list(voc2012.test()())) == len(list(voc2012.val()())) == 1

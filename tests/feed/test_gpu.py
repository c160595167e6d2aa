"""The double buffer on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.core.values import LoDTensor
from refluid.feed.staging import Sender
from tests.feed.leftovers import assert_nothing_left

pytestmark = pytest.mark.gpu
COUNT = 12


def _batches() -> Iterator[Any]:
    shared = np.zeros((256, 256), "float32")
    for number in range(COUNT):
        shared[:] = number
        yield [shared]


@pytest.mark.parametrize("multiprocess", [False, True])
@pytest.mark.parametrize("double", [False, True])
def test_batches_arrive_on_the_device(multiprocess: bool, double: bool) -> None:
    place = fluid.CUDAPlace(0)
    with fluid.program_guard(fluid.Program()):
        data = fluid.data("x", [None, 256])
    loader: Any = fluid.io.DataLoader.from_generator(
        [data], 3, use_double_buffer=double, use_multiprocess=multiprocess
    )
    loader.set_batch_generator(_batches, place)
    for _ in range(2):
        found = [step[0]["x"].tensor for step in loader()]
        assert all(tensor.is_cuda for tensor in found)
        assert [tensor.unique().tolist() for tensor in found] == [[n] for n in range(COUNT)]
    del loader, found
    assert_nothing_left()


def test_a_program_reads_on_the_device() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        reader: Any = fluid.layers.py_reader(3, [(-1, 256)], ["float32"])
        mean = fluid.layers.mean(fluid.layers.read_file(reader))
    reader.decorate_batch_generator(_batches)
    executor = fluid.Executor(fluid.CUDAPlace(0))
    executor.run(startup)
    for _ in range(2):
        reader.start()
        found = [executor.run(main, fetch_list=[mean])[0].item() for _ in range(COUNT)]
        assert found == list(range(COUNT))
        with pytest.raises(fluid.core.EOFException):
            executor.run(main)
        reader.reset()
    assert_nothing_left()


def _long_work(device: torch.device) -> None:
    """Keeps the model's stream busy for a while, so that what is launched next waits."""
    torch.cuda._sleep(2_000_000_000)  # about a second
    assert not torch.cuda.current_stream(device).query()


@pytest.mark.parametrize("pinned", [True, False])
def test_copies_have_a_stream_of_their_own(pinned: bool) -> None:
    device = torch.device("cuda", 0)
    with flags.override({"FLAGS_use_pinned_memory": pinned}):
        sender = Sender(device)
        _long_work(device)
        sent = sender.send([LoDTensor(torch.arange(1000.0), [[0, 400, 1000]])])
        if pinned:
            sent.arrived.synchronize()
            assert not torch.cuda.current_stream(device).query()  # the copy did not wait for it
        (found,) = sender.receive(sent)
    assert found.tensor.is_cuda and found.lod() == [[0, 400, 1000]]
    assert torch.equal(found.tensor.cpu(), torch.arange(1000.0))


def test_memory_that_the_model_reads_is_not_filled_anew() -> None:
    device, sums = torch.device("cuda", 0), []
    sender = Sender(device)
    for number in range(50):
        sent = sender.send([LoDTensor(torch.full((512, 512), float(number)))])
        (batch,) = sender.receive(sent)
        torch.cuda._sleep(1_000_000)
        sums.append(batch.tensor.mean())
        del sent, batch  # while the model's stream has still to read it
    assert [one.item() for one in sums] == list(range(50))


def test_memory_that_is_sent_is_not_filled_anew() -> None:
    """The generator overwrites its array for each batch; copies may still be under way then."""
    with fluid.program_guard(fluid.Program()):
        data = fluid.data("x", [None, 256])
    loader: Any = fluid.io.DataLoader.from_generator([data], 8)
    loader.set_batch_generator(_batches, fluid.CUDAPlace(0))
    found = []
    for (step,) in loader():
        torch.cuda._sleep(1_000_000)
        found.append(step["x"].tensor.double().mean())
    assert [one.item() for one in found] == list(range(COUNT))


class _Images(fluid.io.Dataset):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        return np.full((3, 32, 32), index, np.uint8), np.array([index])


@pytest.mark.parametrize("workers", [0, 2])
def test_uint8_images_are_normalised_on_the_device(workers: int) -> None:
    main, place = fluid.Program(), fluid.CUDAPlace(0)
    with fluid.program_guard(main, fluid.Program()):
        image = fluid.data("image", [None, 3, 32, 32], "uint8")
        label = fluid.data("label", [None, 1], "int64")
        scaled = fluid.layers.scale(fluid.layers.cast(image, "float32"), 1 / 255.0)
        means = fluid.layers.reduce_mean(scaled, [1, 2, 3])
    loader = fluid.io.DataLoader(
        _Images(), [image, label], place, batch_size=8, shuffle=True, num_workers=workers
    )
    executor, seen = fluid.Executor(place), []
    for (step,) in loader():
        assert step["image"].tensor.dtype == torch.uint8 and step["image"].tensor.is_cuda
        values, labels = executor.run(main, feed=step, fetch_list=[means, label])
        np.testing.assert_allclose(values, labels[:, 0] / 255, rtol=1e-6)
        seen += labels[:, 0].tolist()
    assert sorted(seen) == list(range(40))
    del loader
    assert_nothing_left()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_dataset_trains_on_the_device(tmp_path: Path, threads: int) -> None:
    files = [tmp_path / f"part-{number}" for number in range(3)]
    for number, file in enumerate(files):
        file.write_text("".join(f"1 {number * 50 + row} 2 {row} 7\n" for row in range(50)))
    seen: list[int] = []
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        row = fluid.data("row", [None, 1], "int64")
        words = fluid.data("words", [None, 1], "int64", lod_level=1)
        fluid.layers.sequence_pool(fluid.layers.cast(words, "float32"), "sum")
        fluid.layers.py_func(lambda rows: seen.extend(np.array(rows)[:, 0].tolist()), row, None)
        dataset = fluid.DatasetFactory().create_dataset()
        dataset.set_use_var([row, words])
        dataset.set_batch_size(8)
        dataset.set_thread(threads)
        dataset.set_filelist([str(file) for file in files])
        executor = fluid.Executor(fluid.CUDAPlace(0))
        executor.train_from_dataset(fluid.default_main_program(), dataset)
        steps = fluid.io.DataLoader.from_dataset(dataset, fluid.CUDAPlace(0), drop_last=False)
        on_device = [step["row"].tensor for (step,) in steps()]
    assert sorted(seen) == list(range(150))
    assert all(one.is_cuda for one in on_device)
    assert sorted(torch.cat(on_device).flatten().tolist()) == list(range(150))
    assert_nothing_left()


def test_a_reader_left_early_lets_go_of_the_device() -> None:
    with fluid.program_guard(fluid.Program()):
        data = fluid.data("x", [None, 256])
    loader: Any = fluid.io.DataLoader.from_generator([data], 8)
    loader.set_batch_generator(_batches, fluid.CUDAPlace(0))
    for number, _ in enumerate(loader()):
        if number == 2:
            break
    del loader
    assert_nothing_left()


def test_copies_of_a_dataset_do_not_wait_for_the_model() -> None:
    device = torch.device("cuda", 0)
    sender = Sender(device)
    pinned = torch.arange(1000.0).pin_memory()
    _long_work(device)
    (found,) = sender.bring([pinned])
    assert not torch.cuda.current_stream(device).query()
    assert torch.equal(found.cpu(), pinned)

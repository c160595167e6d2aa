"""Full disks and full memory: one clear error, nothing left."""

from __future__ import annotations

import errno
import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.feed.decorators import multiprocess_reader
from refluid.feed.text_datasets.pipe import PipeFailed
from refluid.feed.workers import areas
from tests.feed.leftovers import assert_nothing_left


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    gc.collect()
    assert_nothing_left()


def large() -> Iterator[Any]:
    for number in range(5):
        yield np.full(100_000, number)


def full(*_: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("system", ["memory", "disk"])
def test_no_room_for_what_a_worker_shares(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if system == "memory":
        monkeypatch.setattr(os, "ftruncate", full)
    else:
        monkeypatch.delattr(os, "memfd_create")
        monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(EnforceNotMet, match=r"no room for a batch of .* No space left on device"):
        list(multiprocess_reader([large])())


def test_without_memory_files_the_disk_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    found = [int(one[0]) for one in multiprocess_reader([large])()]
    assert found == list(range(5))
    descriptor = areas.anonymous_file(1 << 16)
    assert os.fstat(descriptor).st_size == 1 << 16
    assert os.fstat(descriptor).st_blocks * 512 >= 1 << 16
    os.close(descriptor)


def dataset(folder: Path, command: str) -> Any:
    path = folder / "data"
    path.write_text("1 5\n" * 100)
    with fluid.program_guard(fluid.Program()):
        row = fluid.data("row", [None, 1], "int64")
    made = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    made.set_use_var([row])
    made.set_filelist([str(path)])
    made.set_pipe_command(command)
    return made


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_a_pipe_command_whose_disk_is_full(tmp_path: Path) -> None:
    with pytest.raises(PipeFailed, match=r"(?s)ended with status .*No space left on device"):
        dataset(tmp_path, "tee /dev/full").load_into_memory()


def test_no_room_for_the_messages_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(OSError, match="No space left on device"):
        dataset(tmp_path, "cat | cat").load_into_memory()

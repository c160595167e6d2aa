"""Memory in use becomes huge pages where the system has them; contents and what is free stay."""

from __future__ import annotations

import ctypes
import errno
import mmap
import random
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.fluid import layers
from refluid.kernels import huge_pages
from refluid.kernels.huge_pages import HugePages
from refluid.runtime import allocator

FLAG = "FLAGS_refluid_huge_pages"
UNIT = huge_pages._size() or 2 << 20
PAGE = mmap.PAGESIZE


def mapped(units: int) -> tuple[np.ndarray, int]:
    """Memory of its own of so many huge pages, and its address, which huge pages begin at."""
    size = (units + 1) * UNIT
    memory = np.frombuffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)
    start = -memory.ctypes.data % UNIT
    return memory[start : start + units * UNIT], memory.ctypes.data + start


def huge(address: int) -> int:
    """Bytes of huge pages in the mapping that has an address."""
    found, within = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if place := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            begin, end = (int(one, 16) for one in place.groups())
            within = begin <= address < end
        elif within and line.startswith("AnonHugePages:"):
            found = 1024 * int(line.split()[1])
    return found


def present(address: int, units: int) -> int:
    """How many pages of so many huge ones are in memory."""
    with Path("/proc/self/pagemap").open("rb") as pages:
        pages.seek(address // PAGE * 8)
        entries = np.frombuffer(pages.read(units * UNIT // PAGE * 8), np.uint64)
    return int((entries >> np.uint64(63)).sum())


def gives_any() -> bool:
    """Whether this system makes huge pages of memory that asks for it."""
    if not huge_pages._asked_for() or not huge_pages._size():
        return False
    memory, address = mapped(1)
    memory[:] = 1
    return huge_pages._madvise()(address, UNIT, huge_pages._COLLAPSE) == 0


def test_memory_in_use_keeps_its_contents() -> None:
    draw = np.random.default_rng(3)
    for _ in range(3):
        memory, address = mapped(5)
        memory[:] = draw.integers(0, 256, memory.size, np.uint8)
        copy = memory.copy()
        made = HugePages().collapse()
        assert (memory == copy).all()
        assert (huge(address) > 0) == gives_any()
        assert made >= huge(address) or not gives_any()


def test_memory_that_is_mostly_free_stays_free() -> None:
    rng = random.Random(5)
    memory, address = mapped(6)
    each = UNIT // PAGE
    for unit in range(6):
        few = rng.randint(1, each * 14 // 16)
        for page in rng.sample(range(each), few):
            memory[unit * UNIT + page * PAGE] = unit + 1
    before = present(address, 6)
    if not huge(address):  # the system made none by itself
        HugePages().collapse()
        assert present(address, 6) == before
    assert memory[::PAGE].max() == 6


def test_threads_write_meanwhile() -> None:
    memory, _ = mapped(4)
    numbers = memory.view(np.int64)
    numbers[:] = 0
    over = threading.Event()

    def collapse() -> None:
        while not over.is_set():
            HugePages().collapse()

    thread = threading.Thread(target=collapse)
    thread.start()
    try:
        for _ in range(100):
            numbers += 1
    finally:
        over.set()
        thread.join()
    assert (numbers == 100).all()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What the system is asked for; it says that it can't."""
    calls: list[tuple[int, int]] = []

    def refuse(address: int, size: int, _advice: int) -> int:
        calls.append((address, size))
        ctypes.set_errno(errno.ENOSYS)
        return -1

    monkeypatch.setattr(huge_pages, "_madvise", lambda: refuse)
    monkeypatch.setattr(huge_pages, "_asked_for", lambda: True)
    monkeypatch.setattr(huge_pages, "_size", lambda: UNIT)
    return calls


def test_a_system_that_cannot_is_asked_once(asked: list[tuple[int, int]]) -> None:
    memory, address = mapped(2)
    memory[:] = 1
    pages = HugePages()
    assert pages.collapse() == pages.collapse() == 0
    assert len(asked) == 1
    assert not address % UNIT


def test_what_there_is_no_time_for_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page takes a second here."""
    became, now = list[int](), [0.0]

    def advise(address: int, size: int) -> bool:
        became.append(address)
        now[0] += 1
        return size == UNIT

    monkeypatch.setattr(huge_pages, "_advise", advise)
    monkeypatch.setattr(huge_pages, "_asked_for", lambda: True)
    monkeypatch.setattr(huge_pages, "_size", lambda: UNIT)
    monkeypatch.setattr(huge_pages.time, "perf_counter", lambda: now[0])
    memory, address = mapped(6)
    memory[:] = 1
    pages = HugePages()
    assert pages.collapse(2.5) == 3 * UNIT
    assert pages.collapse(0.0) == UNIT
    pages.collapse()
    assert {address + n * UNIT for n in range(6)} <= set(became)
    assert len(became) == len(set(became)) > 4


def test_it_takes_a_part_of_the_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run takes a second; what is done at the first of them isn't counted."""
    now, given = [1000.0], list[float]()

    class Pages:
        def collapse(self, seconds: float) -> None:
            given.append(seconds)
            now[0] += seconds

    monkeypatch.setattr(huge_pages, "HugePages", Pages)
    monkeypatch.setattr(allocator.time, "perf_counter", lambda: now[0])
    settled = allocator._Settled(first=10, share=0.25)
    for _ in range(45):
        now[0] += 1
        settled.end_run()
    assert given == pytest.approx([9 / 4, 10 / 4, 20 / 4])


def test_an_administrator_may_forbid_it(
    asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(huge_pages, "_SETTINGS", tmp_path)
    memory, _ = mapped(2)
    memory[:] = 1
    assert HugePages().collapse() == 0  # there is no file
    (tmp_path / "enabled").write_text("always madvise [never]\n")
    (tmp_path / "hpage_pmd_size").write_text(f"{UNIT}\n")
    assert HugePages().collapse() == 0
    assert not asked


@pytest.fixture
def collapses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """After which runs memory was looked at."""
    settled, found = allocator._Settled(), list[int]()

    class Pages:
        def collapse(self, seconds: float) -> None:
            assert seconds >= 0
            found.append(settled._runs)

    monkeypatch.setattr(allocator, "_settled", settled)
    monkeypatch.setattr(huge_pages, "HugePages", Pages)
    yield found


def in_program() -> Callable[[], Any]:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [None, 3], "float32")
        loss = layers.mean(layers.fc(x, 2))
        fluid.optimizer.SGD(0.1).minimize(loss)
        program, startup = fluid.default_main_program(), fluid.default_startup_program()
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    allocator._settled._runs = 0
    feed = {"x": np.ones((4, 3), "float32")}
    return lambda: exe.run(program, feed=feed, fetch_list=[loss], scope=scope)


def in_dygraph() -> Callable[[], Any]:
    model = fluid.dygraph.Linear(3, 2)
    adam = fluid.optimizer.Adam(0.1, parameter_list=model.parameters())

    def step() -> None:
        loss = layers.mean(model(fluid.dygraph.to_variable(np.ones((4, 3), "float32"))))
        loss.backward()
        adam.minimize(loss)
        model.clear_gradients()

    return step


@pytest.mark.parametrize("way", ["program", "dygraph"])
def test_it_is_done_when_memory_is_what_runs_need(way: str, collapses: list[int]) -> None:
    with fluid.dygraph.guard() if way == "dygraph" else torch.no_grad():
        step = in_dygraph() if way == "dygraph" else in_program()
        for _ in range(45):
            step()
        assert collapses == [10, 20, 40]
        fluid.set_flags({FLAG: False})
        try:
            for _ in range(40):
                step()
        finally:
            fluid.set_flags({FLAG: True})
    assert collapses == [10, 20, 40]


def test_steps_over_a_dataset_count(collapses: list[int], tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("3 0.1 0.2 0.3\n" * 90)
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [None, 3], "float32")
        fluid.optimizer.SGD(0.1).minimize(layers.mean(layers.fc(x, 2)))
        program, startup = fluid.default_main_program(), fluid.default_startup_program()
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var([x])
    dataset.set_batch_size(2)
    dataset.set_filelist([str(tmp_path / "rows")])
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    allocator._settled._runs = 0
    exe.train_from_dataset(program, dataset, scope)
    assert collapses == [10, 20, 40]

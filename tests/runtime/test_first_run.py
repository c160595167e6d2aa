"""A plan's first run leaves nothing behind between large blocks of the heap; imports stay small."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.fluid import layers
from refluid.runtime import allocator, plan
from tests.choices import often
from tests.started import run

CPU = torch.device("cpu")
ROOT = Path(__file__).resolve().parents[2]
_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Malloc(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS.split()]


def _mapped() -> int:
    """Blocks that glibc holds in mappings of their own."""
    information = ctypes.CDLL(None).mallinfo2
    information.restype = _Malloc
    return int(information().hblks)


has_glibc = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="looks into glibc's malloc"
)


@has_glibc
def test_large_blocks_of_the_first_run_are_apart_from_the_heap() -> None:
    """In a process whose heap has no free block that is as large."""
    script = f"from {__name__} import large_blocks; large_blocks()"
    run("-c", script, folder=ROOT, check=True)


def large_blocks() -> None:
    """Raises AssertionError where they aren't."""
    assert allocator.keep_freed_blocks()
    before = _mapped()
    with allocator.first_run(CPU):
        large, small = torch.empty(1 << 20), torch.empty(1 << 10)
        assert _mapped() == before + 1
        del large, small
    assert _mapped() == before
    later = torch.empty(1 << 20)
    assert _mapped() == before
    del later


@has_glibc
def test_it_ends_with_an_error_too() -> None:
    allocator.keep_freed_blocks()
    with pytest.raises(ValueError, match="within"), allocator.first_run(CPU):
        raise ValueError("within")
    before = _mapped()
    later = torch.empty(1 << 20)
    assert _mapped() == before
    del later


@has_glibc
def test_other_devices_and_mallocs_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _mapped()
    with allocator.first_run(torch.device("cuda")):
        large = torch.empty(1 << 20)
        assert _mapped() == before
    monkeypatch.setattr(allocator, "keep_freed_blocks", lambda: False)
    with allocator.first_run(CPU):
        more = torch.empty(1 << 20)
        assert _mapped() == before
    del large, more


def test_only_the_first_run_of_a_plan_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    devices: list[torch.device] = []

    def counted(device: torch.device) -> AbstractContextManager[None]:
        devices.append(device)
        return allocator.first_run(device)

    monkeypatch.setattr(plan, "first_run", counted)
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [None, 3])
        y = layers.scale(x, 2.0)
    exe = fluid.Executor()
    for rows in (2, 2, 5):
        (found,) = exe.run(main, feed={"x": np.ones((rows, 3), "float32")}, fetch_list=[y])
        np.testing.assert_array_equal(found, np.full((rows, 3), 2.0, "float32"))
    assert devices == [CPU]


def test_a_plain_training_script_imports_neither_numba_nor_scipy() -> None:
    script = "import sys; from refluid import fluid; print({'numba', 'scipy'} & set(sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "set()"


@has_glibc
@pytest.mark.parametrize("seed", often(range(4), range(2)))
def test_small_things_that_stay_leave_large_blocks_whole(seed: int) -> None:
    """What is small, of random sizes, lies in a heap where a large block was freed."""
    script = f"from {__name__} import small_things; assert small_things({seed}, True)"
    run("-c", script, folder=ROOT, check=True)


@has_glibc
def test_small_things_would_divide_large_blocks() -> None:
    script = f"from {__name__} import small_things; assert not small_things(0, False)"
    run("-c", script, folder=ROOT, check=True)


def small_things(seed: int, room: bool) -> bool:
    """Whether nothing small lies where a large tensor lay."""
    assert allocator.keep_freed_blocks()
    numbers = np.random.RandomState(seed)
    large, after = torch.empty(1 << 22), torch.empty(1 << 22)
    begin, end = large.data_ptr(), large.data_ptr() + large.nbytes
    with allocator.first_run(CPU) if room else nullcontext():
        del large
        sizes = [int(size) for size in 2 ** numbers.uniform(4, 13, 400)]
        kept = [torch.empty(size) for size in sizes]
    assert after.data_ptr() not in range(begin, end)
    return not any(begin <= small.data_ptr() < end for small in kept)

"""When plans free memory, and what flags and strategies make of it."""

from __future__ import annotations

import math
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.analysis.placeholders import is_placeholder, placeholder
from refluid.core import flags
from refluid.engine import replicated
from refluid.fluid.contrib.memory_report import memory_report
from refluid.kernels.holders import Storage
from refluid.runtime import allocator
from refluid.runtime.memory import Garbage, Memory, memory_as_set
from refluid.runtime.plan import Plan
from refluid.runtime.request import Request

CPU = torch.device("cpu")
ROWS, WIDTH = 256, 64
layers = fluid.layers


class Net:
    """Six layers of sums and activations, trained with Momentum."""

    def __init__(self) -> None:
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        self.main.random_seed = self.startup.random_seed = 3
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            x = hidden = fluid.data("x", [None, WIDTH])
            for _ in range(6):
                wide = layers.fc(hidden, WIDTH)
                hidden = layers.relu(layers.elementwise_add(wide, layers.scale(x, 0.5)))
            self.loss = layers.mean(layers.square(hidden))
            fluid.optimizer.Momentum(0.01, 0.9).minimize(self.loss)
        self.executor = fluid.Executor()
        self.executor.run(self.startup, scope=self.scope)
        self.feed = {"x": np.random.default_rng(1).random((ROWS, WIDTH), np.float32)}

    def text(self, memory: Memory) -> str:
        block = self.main.global_block()
        return Plan(Request(block, ("x",), (self.loss.name,), CPU, memory=memory)).text

    def losses(self, program: object) -> list[float]:
        return [
            float(self.executor.run(program, self.feed, [self.loss], scope=self.scope)[0][0])
            for _ in range(3)
        ]

    def peak(self, **options: object) -> int:
        """The peak of a step, above what it starts with."""
        program = self.compiled(**options)
        with fluid.scope_guard(self.scope):
            report = memory_report(self.executor, program, self.feed, [self.loss])
        return report.peak - report.state

    def compiled(self, **options: object) -> fluid.CompiledProgram:
        build = fluid.BuildStrategy()
        for name, value in options.items():
            setattr(build, name, value)
        return fluid.CompiledProgram(self.main, build_strategy=build)


def test_flags_say_when_memory_is_freed() -> None:
    assert memory_as_set(CPU) == Memory()
    assert not memory_as_set(CPU, optimize=None).optimize
    with flags.override({"FLAGS_eager_delete_tensor_gb": -1.0}):
        kept = memory_as_set(CPU, optimize=None)
        assert not kept.frees and kept.optimize  # Fluid: reuse where garbage isn't collected
        assert not memory_as_set(CPU, optimize=False).optimize
    with flags.override({"FLAGS_eager_delete_tensor_gb": 2, "FLAGS_fast_eager_deletion_mode": 0}):
        assert memory_as_set(CPU).garbage == 2 << 30
        assert memory_as_set(torch.device("cuda")).wait and not memory_as_set(CPU).wait
    with flags.override({"FLAGS_memory_fraction_of_eager_deletion": 0.25}):
        assert memory_as_set(CPU).share == 0.25


def test_garbage_is_freed_when_there_is_enough_of_it() -> None:
    garbage = Garbage(limit=100)
    values = [torch.zeros(10) for _ in range(3)]
    stored = [Storage(value) for value in values]
    garbage.add(values[0], values[0].view(2, 5), None)  # one memory of 40 bytes
    garbage.add(values[1])
    del values[:2]
    assert not stored[0].expired() and not stored[1].expired()
    garbage.add(values.pop())
    assert all(one.expired() for one in stored)


def test_placeholders_have_the_shape_and_nothing_else() -> None:
    value = torch.ones(3, 4, dtype=torch.float64)
    found = placeholder(value)
    assert (found.shape, found.dtype, is_placeholder(found)) == (value.shape, value.dtype, True)
    assert found.untyped_storage().nbytes() == 8
    assert placeholder(None) is None and not is_placeholder(value)


def test_inplace_decides_whether_inputs_are_overwritten() -> None:
    net = Net()
    written = re.compile(r"= (relu|elementwise_add|relu_grad)_\(")
    assert written.search(net.text(Memory()))
    assert not written.search(net.text(Memory(in_place=False)))


def test_terms_of_a_sum_are_not_kept_for_their_shape() -> None:
    net = Net()
    assert "= placeholder(" in net.text(Memory())
    assert "placeholder" not in net.text(Memory(garbage=math.inf))


def test_the_largest_share_is_freed_early() -> None:
    net = Net()
    every, half, none = (net.text(Memory(share=share)).count("del ") for share in (1, 0.5, 0))
    assert every > half > none == 0


def test_garbage_collects_in_the_plan() -> None:
    text = Net().text(Memory(garbage=1e6))
    assert "garbage0 = new_garbage()" in text and "garbage0.add(" in text


@pytest.mark.parametrize("threads", [1, 3])
def test_all_ways_compute_the_same(threads: int) -> None:
    expected = Net().losses(Net().main)
    for threshold, share, optimize in (
        (-1.0, 1.0, None),
        (-1.0, 1.0, False),
        (0.0, 1.0, True),
        (0.0, 0.3, True),
        (1e-4, 1.0, False),
        (1e-4, 0.3, True),
    ):
        net = Net()
        build, execution = fluid.BuildStrategy(), fluid.ExecutionStrategy()
        build.memory_optimize, build.enable_inplace = optimize, optimize is not True
        execution.num_threads = threads
        program = fluid.CompiledProgram(net.main).with_data_parallel(
            net.loss.name, build, execution, places=fluid.cpu_places(1)
        )
        values = {
            "FLAGS_eager_delete_tensor_gb": threshold,
            "FLAGS_memory_fraction_of_eager_deletion": share,
        }
        with flags.override(values):
            assert net.losses(program) == expected, (threshold, share, optimize)


def test_memory_is_passed_on_where_garbage_is_not_freed() -> None:
    net = Net()
    eager = net.peak()
    with flags.override({"FLAGS_eager_delete_tensor_gb": -1.0}):
        kept, passed_on = net.peak(memory_optimize=False), net.peak()
    assert eager < passed_on < 0.8 * kept


def test_garbage_needs_memory_up_to_the_threshold() -> None:
    net = Net()
    size = ROWS * WIDTH * 4
    eager = net.peak()
    with flags.override({"FLAGS_eager_delete_tensor_gb": 4 * size / 2**30}):
        assert eager < net.peak() <= eager + 5 * size


def test_freed_memory_is_given_back_every_so_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[torch.device] = []
    monkeypatch.setattr(replicated, "release", given_back.append)
    net, execution = Net(), fluid.ExecutionStrategy()
    execution.num_iteration_per_drop_scope = 2
    program = fluid.CompiledProgram(net.main).with_data_parallel(
        net.loss.name, exec_strategy=execution, places=fluid.cpu_places(1)
    )
    net.losses(program)
    assert given_back == [CPU]


def test_idle_chunks_are_given_back_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[torch.device] = []
    monkeypatch.setattr(allocator, "release", given_back.append)
    net = Net()
    with flags.override({"FLAGS_free_idle_chunk": True}):
        net.losses(net.main)
    assert given_back == [CPU] * 3


def test_the_allocator_takes_its_first_chunk() -> None:
    wrong = {"FLAGS_allocator_strategy": "best"}
    with flags.override(wrong), pytest.raises(ValueError, match="auto_growth"):
        fluid.Executor()
    allocator.reserve.cache_clear()
    with flags.override({"FLAGS_initial_cpu_memory_in_mb": 40}):
        assert allocator.reserve(CPU) == 32 << 20  # whole blocks
    allocator.reserve.cache_clear()
    with flags.override({"FLAGS_fraction_of_cpu_memory_to_use": 0.0}):
        assert allocator.reserve(CPU) == 0
    allocator.reserve.cache_clear()
    allocator.release(CPU)


@pytest.mark.gpu
def test_gpu_memory_is_limited_and_reserved() -> None:
    device = torch.device("cuda:0")
    with flags.override({"FLAGS_gpu_memory_limit_mb": 1024}):
        allocator.prepare(device)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        torch.empty(2 << 30, dtype=torch.uint8, device=device)
    allocator.prepare(device)
    torch.empty(2 << 30, dtype=torch.uint8, device=device)
    allocator.release(device)
    values = {
        "FLAGS_allocator_strategy": "naive_best_fit",
        "FLAGS_initial_gpu_memory_in_mb": 256,
    }
    with flags.override(values):
        allocator.prepare(device)
    assert torch.cuda.memory_reserved(device) >= 256 << 20
    allocator.reserve.cache_clear()


def test_the_heap_has_room_for_large_blocks() -> None:
    """They are mapped elsewhere without it; it is there again after memory is given back."""
    found = subprocess.run(
        [sys.executable, "-c", _ROOM], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["False", "True", "True", "False"]


# Whether a large block is in the heap: at first, with room, after a release, and a larger one.
_ROOM = """
import ctypes, torch
from refluid.runtime import allocator
sbrk = ctypes.CDLL(None).sbrk
sbrk.restype = ctypes.c_void_p

def in_heap(size):
    return torch.empty(size, dtype=torch.uint8).data_ptr() < sbrk(0)

size = 300 << 20
allocator.keep_freed_blocks()
print(in_heap(size))
allocator.make_room(size)
print(in_heap(size))
allocator.release(torch.device("cpu"))
print(in_heap(size), in_heap(4 * size))
"""

"""Settings shared by every test."""

from __future__ import annotations

import gc
import json
import os
import random
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

# OpenMP's threads wait for their next work by computing, until torch is told otherwise as it loads:
# a third of what tests of several processes on two cores took.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

# Tests compare bits, which depend on the number of threads; those of the choice switch it on.
os.environ.setdefault("FLAGS_refluid_adaptive_threads", "0")

import refluid.ops  # noqa: F401
from refluid.core import flags
from refluid.core.random import seed_all
from refluid.ops import by_loops, registry
from refluid.runtime.writing import CONTROL, FEEDING
from tests.golden import GOLDEN
from tests.interrupting import interruptible

# More threads than cores slow small operators down, and test machines are often shared.
torch.set_num_threads(2)


# torch.manual_seed keeps the stack of whoever called it for GPUs that come later: a millisecond.
_seed_torch = (
    torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
)
# The states in which modules of tests made their sources of random numbers.
_first_states: dict[int, tuple[Any, Any]] = {}


@pytest.fixture(autouse=True, scope="module")
def _what_is_there_stays() -> None:
    """Of what former modules left, only garbage goes: tests that look for it look at their own."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _numbers_of_its_own(request: pytest.FixtureRequest) -> None:
    """A test draws the same numbers whichever tests ran before it, in whichever process.

    Sums near zero have few digits: numbers that differed each time failed once in many runs.
    """
    for seed in (random.seed, np.random.seed, _seed_torch, seed_all):
        seed(1)
    for value in vars(request.module).values():
        if isinstance(value, np.random.RandomState):
            _, state = _first_states.setdefault(id(value), (value, value.get_state()))
            value.set_state(state)
        elif isinstance(value, np.random.Generator):
            bits = value.bit_generator
            _, bits.state = _first_states.setdefault(id(value), (value, bits.state))


@pytest.fixture(autouse=True)
def _loops_begin_anew() -> None:
    """Small operators are left to torch as often in each test, whichever ran before it."""
    by_loops._calls = count()


@pytest.fixture(autouse=True)
def _compilers_end() -> Iterator[None]:
    """What a test had compiled in the background is done before the next one begins."""
    yield
    for thread in threading.enumerate():
        if thread.name == "refluid-compile":
            thread.join()


@pytest.fixture
def adaptive_threads() -> Iterator[None]:
    """For tests of choices between several threads and one, which is off in others."""
    with flags.override({"FLAGS_refluid_adaptive_threads": True}):
        yield


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """For tests that send Ctrl-C: it arrives here and in what the test starts."""
    with interruptible():
        yield


def pytest_collection_finish() -> None:
    """Torch and thousands of tests stay: tests that look for garbage need not go through them."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests of a GPU where there is none, however they were selected."""
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints how many of the recorded operator types exist, and which don't."""
    if not GOLDEN.is_dir():
        return
    types = json.loads((GOLDEN / "op_types.json").read_text())
    known = CONTROL.keys() | FEEDING
    missing = [kind for kind in types if registry.find(kind) is None and kind not in known]
    have = len(types) - len(missing)
    terminalreporter.write_line(f"operators: {have} of {len(types)} recorded types exist")
    if missing:
        terminalreporter.write_line(f"missing, most used first: {', '.join(missing[:12])}")

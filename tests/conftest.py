"""Settings shared by every test."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator

import pytest
import torch

# Tests compare bits, which depend on the number of threads; those of the choice switch it on.
os.environ.setdefault("FLAGS_refluid_adaptive_threads", "0")

import refluid.ops  # noqa: F401
from refluid.ops import registry
from refluid.runtime.writing import CONTROL, FEEDING
from tests.golden import GOLDEN
from tests.interrupting import interruptible

# More threads than cores slow small operators down, and test machines are often shared.
torch.set_num_threads(2)


@pytest.fixture(autouse=True)
def _compilers_end() -> Iterator[None]:
    """What a test had compiled in the background is done before the next one begins."""
    yield
    for thread in threading.enumerate():
        if thread.name == "refluid-compile":
            thread.join()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """For tests that send Ctrl-C: it arrives here and in what the test starts."""
    with interruptible():
        yield


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

"""Run as a program: `mutation_runs MODEL FIRST COUNT` reads and runs so many damaged programs.

Prints each seed before its program, so that the last one printed is that of a crash; then what
became of them. A program of its own, for a crash or a lack of memory would end the tests.
"""

from __future__ import annotations

import collections
import faulthandler
import logging
import resource
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import refluid.fluid as fluid
from refluid.core.places import CPUPlace
from refluid.core.values import LoDTensor
from refluid.ir.program import Program
from refluid.verify.recordings import Recording, load_recording
from tests.ir.mutations import is_clear, mutated

# Bytes of address space, and seconds after which a loop that was damaged is left alone.
_MEMORY, _PATIENCE = 16 << 30, 120


class TooLong(BaseException):
    """It runs and runs: a damaged loop needn't end."""


def _too_long(*_: object) -> None:
    raise TooLong


def run(program: Program, recording: Recording) -> None:
    """Reads, prints, copies and runs a program as recorded, once."""
    str(program)
    program.clone(for_test=True).serialize_to_string()
    scope = fluid.Scope()
    for name, value in recording.state.items():
        held = scope.var(name).get_tensor()
        held.set(value.array, CPUPlace())
        held.set_recursive_sequence_lengths(value.lengths)
    step = recording.steps[0]
    feed: dict[str, Any] = {}
    for name, value in step.feeds.items():
        feed[name] = fed = LoDTensor()
        fed.set(value.array, CPUPlace())
        fed.set_recursive_sequence_lengths(value.lengths)
    fluid.Executor().run(program, feed, list(step.fetches), scope=scope, return_numpy=False)


def outcome(data: bytes, seed: int, recording: Recording) -> str:
    """ran, refused, endless, or the error that is no clear one."""
    signal.alarm(_PATIENCE)
    try:
        run(Program.parse_from_string(mutated(data, seed)), recording)
        return "ran"
    except TooLong:
        return "endless"
    except Exception as error:
        clear = is_clear(error)
        return "refused" if clear else f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)


def main(folder: Path, first: int, count: int) -> None:
    """Prints the outcomes; exit status 1 where one is no clear error."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    signal.signal(signal.SIGALRM, _too_long)
    recording, data = load_recording(folder), (folder / "main.pb").read_bytes()
    run(Program.parse_from_string(data), recording)
    found: collections.Counter[str] = collections.Counter()
    for seed in range(first, first + count):
        print("seed", seed, flush=True)
        told = outcome(data, seed, recording)
        found[told] += 1
        if told not in ("ran", "refused", "endless"):
            print(told, flush=True)
    print(dict(found))
    sys.exit(bool(found.keys() - {"ran", "refused", "endless"}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

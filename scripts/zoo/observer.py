"""`python observer.py OUT.jsonl run SCRIPT ...`: `refluid`, with a note of what each run fetched.

For each call of `Executor.run` and `ParallelExecutor.run` a line: if the program trains its number
among those that do, and the fetched values that are one number. The script itself isn't touched.

Of networks that run at once, each loss whose gradients are computed (`backward`) is a line, as of
program 0. ZOO_STEPS: the script ends after so many of these. ZOO_DATA: a function of
`zoo/data/samples.py` that gives the script the samples that it would download.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from zoo.data import samples

sys.path.pop(0)

_training: list[Any] = []


def _number_of(program: Any) -> int | None:
    """Which of the programs that update parameters it is, by their first runs."""
    while not hasattr(program, "global_block"):
        program = getattr(program, "_program", None) or getattr(program, "program", None)
        if program is None:
            return None
    if not any(op.role & 2 for op in program.global_block().ops):
        return None
    if not any(program is one for one in _training):
        _training.append(program)
    return next(place for place, one in enumerate(_training) if program is one)


def _numbers(fetched: Any) -> list[float]:
    values = [np.asarray(one) for one in fetched or () if not isinstance(one, list)]
    return [float(one.mean()) for one in values if one.dtype.kind == "f" and one.size == 1]


def _watch(kind: type, name: str, out: TextIO, program_of: Any) -> None:
    original = getattr(kind, name)

    @functools.wraps(original)
    def run(self: Any, *given: Any, **options: Any) -> Any:
        fetched = original(self, *given, **options)
        program = program_of(self, given, options)
        number = None if program is None else _number_of(program)
        numbers = _numbers(fetched)
        if number is not None or numbers:
            out.write(f"{json.dumps({'program': number, 'numbers': numbers})}\n")
            out.flush()
        return fetched

    setattr(kind, name, run)


def _watch_losses(out: TextIO, steps: int) -> None:
    from refluid.eager import VarBase

    original, seen = VarBase.backward, itertools.count(1)

    @functools.wraps(original)
    def backward(self: Any, *given: Any, **options: Any) -> None:
        if steps and next(seen) > steps:
            raise SystemExit(0)
        original(self, *given, **options)
        out.write(f"{json.dumps({'program': 0, 'numbers': _numbers([self.numpy()])})}\n")
        out.flush()

    VarBase.backward = backward  # type: ignore[method-assign]


def main() -> None:
    out = open(sys.argv.pop(1), "w", encoding="utf-8")  # noqa: SIM115
    from refluid import fluid
    from refluid.cli.main import app

    def of_executor(_self: Any, given: Any, options: Any) -> Any:
        program = given[0] if given else options.get("program")
        return fluid.default_main_program() if program is None else program

    _watch(fluid.Executor, "run", out, of_executor)
    _watch_losses(out, int(os.environ.get("ZOO_STEPS", "0")))
    if "ZOO_DATA" in os.environ:
        getattr(samples, os.environ["ZOO_DATA"])()
    app()


if __name__ == "__main__":
    main()

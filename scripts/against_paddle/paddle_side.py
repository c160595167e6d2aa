"""Runs cases by paddle 2.6.2, in its environment: CASES and OUTCOMES are files.

Every case is a process of its own, for programs of another version may crash or hang.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from typing import Any

import numpy as np
import paddle
from paddle.base import core

from scripts.against_paddle.case import Case, Outcome, Tensor

_SECONDS = 25


def _tensor(array: Any, lengths: Any) -> Any:
    tensor = core.LoDTensor()
    tensor.set(np.ascontiguousarray(array), paddle.CPUPlace())
    if lengths:
        tensor.set_recursive_sequence_lengths(lengths)
    return tensor


def run(case: Case) -> Outcome:
    """By paddle, on the CPU."""
    return _declare(case) if case.declared else _compute(case)


def _declare(case: Case) -> Outcome:
    block = paddle.static.Program.parse_from_string(case.program).global_block()
    try:
        for op in block.ops:
            op.desc.infer_shape(block.desc)
        return Outcome(shapes={name: tuple(block.var(name).shape) for name in case.fetches})
    except Exception as error:
        return Outcome(error=f"{type(error).__name__}: {str(error)[-400:]}")


def _compute(case: Case) -> Outcome:
    scope = core.Scope()
    for name, (array, lengths) in case.state.items():
        tensor = scope.var(name).get_tensor()
        tensor.set(array, paddle.CPUPlace())
        if lengths:
            tensor.set_recursive_sequence_lengths(lengths)
    found = []
    try:
        program = paddle.static.Program.parse_from_string(case.program)
        with paddle.static.scope_guard(scope):
            executor = paddle.static.Executor(paddle.CPUPlace())
            for feeds in (case.feeds, *case.later):
                found += executor.run(
                    program,
                    feed={name: _tensor(*value) for name, value in feeds.items()},
                    fetch_list=list(case.fetches),
                    return_numpy=False,
                )
    except Exception as error:
        return Outcome(error=f"{type(error).__name__}: {str(error)[-400:]}")
    found += [scope.find_var(name).get_tensor() for name in case.kept]
    return Outcome([_values(one) for one in found])


def _values(fetched: Any) -> Tensor | None:
    if not isinstance(fetched, core.LoDTensor):
        return None
    return np.array(fetched), fetched.recursive_sequence_lengths()


def _apart(case: Case, file: str) -> Outcome:
    """Runs a case in a process of its own."""
    child = os.fork()
    if not child:
        with open(file, "wb") as to:
            pickle.dump(run(case), to)
        os._exit(0)
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended and status:
            return Outcome(error="paddle crashed")
        if ended:
            with open(file, "rb") as source:
                outcome: Outcome = pickle.load(source)
            return outcome
        time.sleep(0.002)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return Outcome(error=f"paddle hung for {_SECONDS} s")


def main() -> None:
    paddle.enable_static()
    with open(sys.argv[1], "rb") as source:
        cases: list[Case] = pickle.load(source)
    outcomes = []
    for number, case in enumerate(cases):
        outcomes.append(_apart(case, sys.argv[2] + ".one"))
        print(number + 1, flush=True)
    with open(sys.argv[2], "wb") as to:
        pickle.dump(outcomes, to)


if __name__ == "__main__":
    main()

"""Recorded programs run at once: each operator by itself, and autograd for Fluid's gradients."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from refluid.core import flags
from refluid.eager import VarBase
from refluid.ir.attributes import OpRole
from refluid.ir.names import GRAD
from refluid.verify.recordings import load_recording
from tests.eager.recorded import CASES, AtOnce, expected, loss_of, plain
from tests.golden import needs_golden
from tests.ops.test_golden import DEVIATIONS

# Gradient operators that a plan tells more than their slots: whose LoD a gradient has, and what
# they change beside.
PLANNED = {
    "paddle.fluid.layers.sequence_unpad-0/grad.000",
    "paddle.fluid.layers.data_norm-0/grad.000",
}


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def _chosen(path: Path) -> bool:
    """One case in five, the same ones each time."""
    return zlib.crc32(_name(path).encode()) % 5 == 0


def _cases() -> list[object]:
    slow = pytest.mark.slow
    return [pytest.param(one, id=_name(one), marks=() if _chosen(one) else slow) for one in CASES]


def _near(found: np.ndarray, wanted: np.ndarray) -> bool:
    size = max(1.0, float(np.abs(wanted).max(initial=0))) if wanted.dtype.kind == "f" else 1.0
    return bool(np.allclose(found, wanted, 1e-4, 2e-6 * size, equal_nan=True))


WAYS = pytest.mark.parametrize("direct", [False, True], ids=["planned", "direct"])


@needs_golden
@WAYS
@pytest.mark.parametrize("path", _cases())
def test_operators(path: Path, direct: bool) -> None:
    recording = load_recording(path)
    if not plain(recording) or _name(path) in {*DEVIATIONS, *PLANNED}:
        pytest.skip("not of tensors alone, or known to differ")
    with flags.override({"FLAGS_refluid_fluid_cpu_faults": True}):
        now = AtOnce(recording, direct=direct)
        for op in now.ops:
            now.run(op)
        for name, value in expected(recording).items():
            assert now.value(name).size == value.array.size, name
            assert value.array.size == 0 or _near(now.value(name), value.array), name


@needs_golden
@WAYS
@pytest.mark.parametrize("path", _cases())
def test_gradients_by_autograd(path: Path, direct: bool) -> None:
    recording = load_recording(path)
    if not plain(recording) or _name(path) in DEVIATIONS:
        pytest.skip("not of tensors alone, or known to differ")
    with flags.override({"FLAGS_refluid_fluid_cpu_faults": True}):
        now = AtOnce(recording, direct=direct)
        loss = loss_of(now.ops)
        fetched = {
            name.removesuffix(GRAD): one
            for name, one in expected(recording).items()
            if name.endswith(GRAD)
        }
        wanted = {name: one for name, one in fetched.items() if name in now.vars}
        if loss is None or not wanted:
            pytest.skip("no gradients of what is fed or of parameters")
        for name in wanted:
            now.vars[name].stop_gradient = False
        for op in now.ops[: loss[0]]:
            now.run(op)
        now.vars[loss[1]].backward()
        for name, value in wanted.items():
            assert _near(now.vars[name].gradient(), value.array), name


@needs_golden
@WAYS
@pytest.mark.parametrize("path", _cases())
def test_no_result_lies_in_a_parameter(path: Path, direct: bool) -> None:
    """Optimizers overwrite parameters: what was made of them before stays as it was."""
    recording = load_recording(path)
    if not plain(recording):
        pytest.skip("not of tensors alone")
    now = AtOnce(recording, direct=direct)
    trained = [one for one in now.vars.values() if one.tensor.is_floating_point()]
    for one in trained:
        one.stop_gradient = False
    taken = {*map(_place, trained)} - {None}
    for op in now.ops:
        if op.role & (OpRole.BACKWARD | OpRole.OPTIMIZE):
            break
        now.run(op)
        for name in set(op.output_arg_names) - set(op.input_arg_names):
            if name in now.vars:
                assert _place(now.vars[name]) not in taken, (op.type, name)


def _place(var: VarBase) -> int | None:
    """Where its numbers lie; None where there are none."""
    value = var._value
    return value.untyped_storage().data_ptr() if value is not None and value.numel() else None

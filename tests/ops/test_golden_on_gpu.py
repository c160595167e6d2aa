"""Recorded runs of operators, which a CPU made, give the same numbers on a GPU."""

from pathlib import Path

import pytest

from refluid.core.places import CUDAPlace
from refluid.verify.recordings import load_recording
from refluid.verify.replay import replay
from tests.golden import GOLDEN, needs_golden
from tests.ops.test_golden import DEVIATIONS

CASES = sorted((GOLDEN / "ops").glob("*/*.npz"))
_FAULT = "a fault of Fluid's CPU, which no GPU has"
_NOTHING = "cancels almost to nothing: sums in another order leave another rest"
OTHERWISE = {
    **DEVIATIONS,
    "paddle.fluid.layers.deformable_conv-0/auto.000": _FAULT,
    "paddle.fluid.layers.deformable_conv-0/grad.000": _FAULT,
    "paddle.fluid.layers.dynamic_lstm-0/grad.000": _FAULT,
    "paddle.fluid.layers.dynamic_lstmp-0/grad.000": _FAULT,
    "paddle.fluid.layers.batch_norm-0/grad.000": _NOTHING,
    "paddle.fluid.layers.batch_norm-1/grad.000": _NOTHING,
    "paddle.fluid.layers.inplace_abn-0/grad.000": _NOTHING,
}
# Products and sums are rounded once instead of twice: so far from Fluid's CPU, not 1e-5.
NEARLY = {
    "paddle.fluid.layers.IfElse-0/auto.000": 2e-5,
    "paddle.fluid.layers.batch_norm-0/auto.000": 2e-5,
    "paddle.fluid.layers.grid_sampler-0/auto.000": 2e-5,
}


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@needs_golden
@pytest.mark.gpu
@pytest.mark.parametrize("path", CASES, ids=_name)
def test_recorded_run(path: Path) -> None:
    recording = load_recording(path)
    if recording.parallel is not None:
        pytest.skip("data parallel runs are tested with the replicas")
    outcome = replay(recording, _name(path), CUDAPlace(0))
    if _name(path) in NEARLY:
        assert outcome.max_error is not None and outcome.max_error <= NEARLY[_name(path)]
        return
    if not outcome.passed and _name(path) in OTHERWISE:
        pytest.xfail(OTHERWISE[_name(path)])
    assert outcome.passed, outcome.reason

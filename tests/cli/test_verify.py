"""`refluid verify` over all golden recordings whose operators exist."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from refluid.cli import verify
from refluid.cli.main import app
from refluid.core import flags
from refluid.core.places import CPUPlace, Place
from refluid.verify.metrics import change_bound, digest, digest_error, relative_error
from refluid.verify.recordings import Recording, find_recordings, load_recording, seeded_array
from refluid.verify.replay import Outcome, missing_operators, replay
from tests.golden import GOLDEN, needs_golden

REQUIRED = (
    "book_fit_a_line",
    "book_mnist_softmax",
    "book_mnist_mlp",
    "book_mnist_cnn",
    # book_mnist_cnn and mobilenet_v1 have its operators.
    pytest.param("book_resnet_cifar10", marks=pytest.mark.slow),
    pytest.param("book_vgg_bn_drop", marks=pytest.mark.slow),
    # A minute on two busy cores.
    pytest.param("resnet50", marks=pytest.mark.slow),
    "mobilenet_v1",
    pytest.param("vgg11", marks=pytest.mark.slow),
)


@needs_golden
@pytest.mark.parametrize("model", REQUIRED)
def test_training_runs_give_fluids_losses(model: str) -> None:
    recording = load_recording(GOLDEN / "zoo" / model)
    outcome = replay(recording, model)
    assert outcome.passed, outcome.reason


@needs_golden
@pytest.mark.slow  # tests/ops/test_golden.py has each case
def test_operator_cases_of_implemented_operators(capsys: pytest.CaptureFixture[str]) -> None:
    missing: Counter[str] = Counter()
    failed, passed = [], 0
    for path in find_recordings([GOLDEN / "ops"]):
        recording = load_recording(path)
        absent = missing_operators(recording.programs.values())
        missing.update(absent)
        if absent:
            continue
        name = str(path.relative_to(GOLDEN / "ops"))
        outcome = replay(recording, name)
        passed += outcome.passed
        if not outcome.passed and name not in KNOWN:
            failed.append(f"{name}: {outcome.reason.splitlines()[0]}")
    with capsys.disabled():
        print(f"\n{passed} operator cases pass; {len(missing)} operators are missing")
    assert passed
    assert not failed, "\n".join(failed)


# Recorded results that are no computation's: uninitialised memory, or rounding around 0.
KNOWN = {
    "paddle.fluid.dygraph.GroupNorm-0/op.000.npz": "Fluid's result for a 3-D input is not computed",
    "paddle.fluid.dygraph.GroupNorm-0/opgrad.000.npz": "likewise",
    "paddle.fluid.dygraph.TreeConv-0/opgrad.001.npz": "Fluid reads the filter transposed: wrong",
    "paddle.fluid.layers.batch_norm-0/grad.000.npz": "1.6e-5: a gradient of 0 but for rounding",
    "paddle.fluid.layers.inplace_abn-0/auto.000.npz": "the mean of what was normalised: likewise",
}


def test_relative_error_sees_differences_and_forgives_rounding() -> None:
    base = np.linspace(1, 2, 10, dtype="float32")
    assert relative_error(base, base) == 0
    assert relative_error(base * np.float32(1 + 1e-7), base) < 1e-6
    assert relative_error(base * np.float32(1.001), base) > 1e-4
    assert relative_error(np.array([np.nan, 1]), np.array([1.0, np.nan])) == float("inf")
    assert relative_error(np.array([0.0, 1e-3]), np.array([0.0, 0.0])) > 0.99


def test_a_digest_is_bound_by_what_the_run_changed() -> None:
    start = np.linspace(1, 2, 1000, dtype="float32")
    after = start * np.float32(1.01)
    assert change_bound(after, start) == pytest.approx(1e-5, rel=0.02)
    assert change_bound(start, start) == 0.0
    assert change_bound(after, None) == 1e-3
    late = digest(start * np.float32(1.0099))
    assert digest_error(late, digest(after), after.size) > change_bound(after, start)
    assert digest_error(digest(after * (1 + 1e-7)), digest(after), after.size) == 0.0


def test_seeded_arrays_repeat() -> None:
    one = seeded_array("w", [3, 2], "float32", 0.05, 0.0)
    np.testing.assert_array_equal(one, seeded_array("w", [3, 2], "float32", 0.05, 0.0))
    wide = seeded_array("w", [3, 2], "float32", 0.5, 1.0)
    np.testing.assert_allclose(wide, one * 10 + 1, rtol=1e-6)
    assert digest(one)[3] == one[0, 0]


@needs_golden
def test_the_command_reports_and_fails(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    case = str(GOLDEN / "zoo" / "book_fit_a_line")
    result = CliRunner().invoke(app, ["verify", case, "--json", str(out)])
    assert result.exit_code == 0, result.output
    (entry,) = json.loads(out.read_text())
    assert entry["case"] == "book_fit_a_line"
    assert entry["passed"] is True
    assert entry["max_error"] < 1e-4
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"not an archive")
    assert CliRunner().invoke(app, ["verify", str(broken)]).exit_code == 1
    assert CliRunner().invoke(app, ["verify", str(tmp_path / "absent")]).exit_code == 2
    for tier in ("interpreted", "recorded"):
        assert CliRunner().invoke(app, ["verify", case, "--tier", tier]).exit_code == 0
    assert CliRunner().invoke(app, ["verify", case, "--tier", "fast"]).exit_code == 2
    assert CliRunner().invoke(app, ["verify", case, "--place", "tpu"]).exit_code == 2


@needs_golden
def test_the_tier_is_the_one_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []

    def replayed(recording: Recording, case: str, place: Place) -> Outcome:
        assert place == CPUPlace()
        used.append(str(flags.value("refluid_tier")))
        return Outcome(case, True, 0.0, 0.0, "why", True)

    monkeypatch.setattr(verify, "replay", replayed)
    for tier in ("interpreted", "recorded", "compiled", "auto"):
        case = str(GOLDEN / "zoo" / "book_fit_a_line")
        result = CliRunner().invoke(app, ["verify", case, "--tier", tier])
        assert "pass as ill-conditioned: book_fit_a_line" in " ".join(result.output.split())
    assert used == ["interpreted", "recorded", "compiled", "auto"]

"""What the recorder writes, `refluid verify` reads, and finds to be right or wrong."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from refluid.verify.recordings import load_recording
from refluid.verify.replay import replay
from tests.started import run

SCRIPTS = Path(__file__).parent / "scripts"
RECORDER = Path(__file__).resolve().parents[2] / "src" / "refluid" / "record" / "fluid_recorder.py"
# `python fluid_recorder.py ...` in an environment whose `paddle` is refluid's.
_ALONE = (
    "import sys, runpy, refluid.paddle; refluid.paddle.install(); del sys.argv[0];"
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)
REFLUID = ["-m", "refluid.cli.main", "record"]
ALONE = ["-c", _ALONE, str(RECORDER)]


def record(way: list[str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(*way, "--out", str(folder), *arguments)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("record") / "training"
    done = record(ALONE, folder, "--steps", "4", str(SCRIPTS / "train.py"), "9")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("loss") == 2 and "4 runs in" in done.stderr
    return folder


def test_a_training_script_is_recorded_and_verified(training: Path) -> None:
    recording = load_recording(training)
    assert [len(step.fetches) for step in recording.steps] == [1, 1, 2, 1]
    assert len(recording.programs) == 2 and not recording.random
    outcome = replay(recording, "training")
    assert outcome.passed, outcome.reason
    facts = json.loads((training / "meta.json").read_text())
    assert facts["dropout_zeroed"] == 2 and facts["repeats_itself_within"] == 0.0
    assert facts["source"][1:] == ["9"]


def test_spreads_say_what_rounding_does(training: Path) -> None:
    recording = load_recording(training)
    losses = [recording.spreads[number, "fetch 0"] for number in range(4)]
    assert all(1e-9 < one < 1e-4 for one in losses)
    named = {label for _, label in recording.spreads if not label.startswith("fetch")}
    assert {"fc_0.w_0", "fc_0.w_0_moment1_0"} <= named


def test_wrong_numbers_are_found(training: Path) -> None:
    recording = load_recording(training)
    array = recording.state["fc_0.w_0"].array
    array *= 1.01
    assert not replay(recording, "training").passed


def test_readers_and_sequences(tmp_path: Path) -> None:
    done = record(REFLUID, tmp_path, "--steps", "3", str(SCRIPTS / "sequences.py"))
    assert done.returncode == 0, done.stderr
    recording = load_recording(tmp_path)
    step = recording.steps[0]
    assert set(step.feeds) == {"words", "label"}
    assert step.feeds["words"].lengths == step.expected["1"].lengths == [[2, 3, 1]]
    outcome = replay(recording, "sequences")
    assert outcome.passed, outcome.reason


def test_an_old_script_is_recorded_as_it_runs(tmp_path: Path) -> None:
    old = "import numpy as np\nimport paddle.fluid as fluid\nprint 'old', np.float(1), xrange(2)\n"
    lines = """
x = fluid.data('x', [None, 2], 'float32')
loss = fluid.layers.mean(fluid.layers.fc(x, 1))
exe = fluid.Executor(fluid.CUDAPlace(0))
exe.run(fluid.default_startup_program())
exe.run(feed={'x': np.ones([3, 2], 'float32')}, fetch_list=[loss])
"""
    (tmp_path / "script.py").write_text(old + lines)
    script = str(tmp_path / "script.py")
    done = record(REFLUID, tmp_path / "out", "--place", "cpu", "--repeats", "0", script)
    assert done.returncode == 0, done.stderr
    assert "old 1.0" in done.stdout and (tmp_path / "out" / "steps.npz").exists()


def test_random_programs_are_marked(tmp_path: Path) -> None:
    done = record(
        REFLUID, tmp_path, "--steps", "2", "--keep-random", str(SCRIPTS / "train.py"), "2"
    )
    assert done.returncode == 0, done.stderr
    assert load_recording(tmp_path).random
    assert not (tmp_path / "spread.json").exists()


def test_scripts_that_end_early_or_fail(tmp_path: Path) -> None:
    short, broken = tmp_path / "short.py", tmp_path / "broken.py"
    train = (SCRIPTS / "train.py").read_text()
    short.write_text(train)
    broken.write_text(train + "raise ValueError('after the steps')\n")
    done = record(REFLUID, tmp_path / "short", "--steps", "50", str(short), "2")
    assert done.returncode == 0 and "3 runs in" in done.stderr
    done = record(REFLUID, tmp_path / "broken", "--steps", "50", str(broken), "2")
    assert done.returncode == 1 and "after the steps" in done.stderr
    assert len(load_recording(tmp_path / "broken").steps) == 3
    nothing = tmp_path / "nothing.py"
    nothing.write_text("import paddle.fluid\n")
    done = record(REFLUID, tmp_path / "nothing", str(nothing))
    assert done.returncode == 1 and "fed and fetched nothing" in done.stderr


def test_metrics_are_those_of_verify() -> None:
    from refluid.record import fluid_recorder
    from refluid.verify import metrics

    draw = np.random.default_rng(0)
    for size in (1, 2, 1000):
        for scale in (1.0, 1e-9):
            one = (draw.standard_normal(size) * scale).astype(np.float32)
            other = one * (1 + draw.uniform(-1e-3, 1e-3, size)).astype(np.float32)
            error = fluid_recorder.relative_error(one, other)
            assert error == pytest.approx(metrics.relative_error(one, other))
            digests = [metrics.digest(array) for array in (one, other)]
            for mine, theirs in zip(map(fluid_recorder.digest, (one, other)), digests, strict=True):
                np.testing.assert_array_equal(mine, theirs)
            error = fluid_recorder.digest_error(*digests, size)
            assert error == pytest.approx(metrics.digest_error(*digests, size))

"""`paddle.Model`: what it prints and saves, as programs, and in several processes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.paddle as paddle
from refluid.core import names
from tests.collective.jobs import as_trainers
from tests.paddle.two.fits import Points, model, trained


@pytest.fixture
def at_once() -> Iterator[None]:
    paddle.disable_static()
    try:
        with names.guard():
            yield
    finally:
        paddle.enable_static()


def _printed(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, without times."""
    text = re.sub(r"\d+(us|ms|s)/step", "T/step", capsys.readouterr().out)
    return re.sub(r"ETA: \S+", "ETA: T", text)


EXPLAINED = (
    "The loss value printed in the log is the current step, and the metric is the average value "
    "of previous steps.\n"
)


@pytest.mark.usefixtures("at_once")
def test_lines_of_a_fit(capsys: pytest.CaptureFixture[str]) -> None:
    made = model(1e-9, paddle.metric.Accuracy(topk=(1, 2)))
    made.fit(Points(10), Points(6), 4, epochs=1, log_freq=2, shuffle=False)
    number = r"\d\.\d{4}"
    values = f"loss: {number} - acc_top1: {number} - acc_top2: {number} - T/step\n"
    wanted = (
        re.escape(EXPLAINED)
        + f"Epoch 1/1\nstep 2/3 - {values}step 3/3 - {values}"
        + f"Eval begin...\nstep 2/2 - {values}Eval samples: 6\n"
    )
    assert re.fullmatch(wanted, _printed(capsys))


@pytest.mark.usefixtures("at_once")
def test_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    model().predict(Points(20), verbose=1)
    first, *others, last, end = _printed(capsys).removeprefix("Predict begin...\n").split("step")
    assert first == ""
    bars = re.findall(r"(\d+)/20 \[(.*?)\]", "".join([*others, last, end]))
    assert [int(place) for place, _ in bars] == [*range(2, 21, 2)]
    assert dict(bars)["2"] == "==>..........................."
    assert dict(bars)["20"] == "=" * 30


@pytest.mark.usefixtures("at_once")
def test_steps_of_unknown_number_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    def batches() -> Iterator[Any]:
        for place in range(5):
            x, y = Points(9)[place]
            yield x[None], y[None]

    model().fit(batches(), log_freq=2)
    assert re.findall(r"step (\d+) - loss", _printed(capsys)) == ["2", "4", "5"]


@pytest.mark.usefixtures("at_once")
def test_so_many_batches() -> None:
    class Count(paddle.callbacks.Callback):
        steps = 0

        def on_train_batch_end(self, step: int, logs: Any = None) -> None:
            self.steps += 1

    count = Count()
    model().fit(Points(10), batch_size=4, epochs=9, verbose=0, num_iters=7, callbacks=count)
    assert count.steps == 7


@pytest.mark.usefixtures("at_once")
def test_files_are_read_again(tmp_path: Path) -> None:
    made = model(optimizer="Adam")
    x, y = np.ones((2, 4), "float32"), np.array([[0], [2]])
    made.train_batch([x], [y])
    made.save(str(tmp_path / "one"))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["one.pdopt", "one.pdparams"]
    wanted = [float(made.train_batch([x], [y])[0].item()) for _ in range(2)]
    with names.guard():
        other = model(optimizer="Adam")
        other.load(str(tmp_path / "one"))
        assert [float(other.train_batch([x], [y])[0].item()) for _ in range(2)] == wanted
        other.load(str(tmp_path / "one"), reset_optimizer=True)
        with pytest.raises(AssertionError, match="Failed to load parameters"):
            other.load(str(tmp_path / "none"))
        narrow = model(width=6)
        with pytest.raises(ValueError, match=r"0\.weight receives a shape \[4, 8\], but"):
            narrow.load(str(tmp_path / "one"))
        with pytest.warns(UserWarning, match="Skip loading") as said:
            narrow.load(str(tmp_path / "one"), skip_mismatch=True)
        assert [str(one.message).split()[3] for one in said] == [
            "0.weight.",
            "0.bias.",
            "2.weight.",
        ]


@pytest.mark.parametrize("programs", [False, True])
def test_models_for_inference(programs: bool, tmp_path: Path) -> None:
    x = np.random.RandomState(0).rand(3, 4).astype("float32")
    (paddle.enable_static if programs else paddle.disable_static)()
    with names.guard(), paddle.static.program_guard(paddle.static.Program()):
        made = model()
        (wanted,) = made.predict_batch([x])
        made.save(str(tmp_path / "net"), training=False)
    paddle.disable_static()
    loaded = paddle.jit.load(str(tmp_path / "net"))
    np.testing.assert_allclose(loaded(paddle.to_tensor(x)).numpy(), wanted, rtol=1e-6)
    paddle.enable_static()


def test_programs_train_alike() -> None:
    for size in (2, 4):
        found = trained(False, size, 8, accumulate_grad_batches=1)
        np.testing.assert_allclose(found[0], trained(True, size, 8)[0], rtol=1e-5)
        assert found[1:] == pytest.approx(trained(True, size, 8)[1:], rel=1e-5)
    with pytest.raises(NotImplementedError, match="GradientMergeOptimizer"):
        trained(False, 2, 8, accumulate_grad_batches=2)


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [True, False])
def test_two_processes_train_as_one(at_once: bool, tmp_path: Path) -> None:
    alone = trained(at_once, 4)
    for found in as_trainers(2, trained, at_once, 2, folder=tmp_path):
        assert not isinstance(found, str), found
        np.testing.assert_allclose(found[0], alone[0], rtol=1e-4)


@pytest.mark.usefixtures("at_once")
def test_mixed_precision() -> None:
    made = model()
    made.prepare(made._optimizer, made._loss, amp_configs={"level": "O1", "dtype": "bfloat16"})
    before = made.parameters()[0].numpy()
    made.fit(Points(8), batch_size=4, verbose=0)
    assert np.abs(made.parameters()[0].numpy() - before).max() > 1e-3


@pytest.mark.usefixtures("at_once")
def test_early_stopping_keeps_the_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stop = paddle.callbacks.EarlyStopping("loss", patience=1)
    model(1e-9).fit(Points(4), Points(4), 4, 6, save_dir=str(tmp_path), verbose=0, callbacks=stop)
    said = capsys.readouterr().out.splitlines()
    assert said[-3:-1] == [
        "Epoch 2: Early stopping.",
        f"Best checkpoint has been saved at {tmp_path / 'best_model'}",
    ]
    assert (tmp_path / "best_model.pdparams").exists()
    with pytest.warns(UserWarning, match="should be loss or metric name"):
        stop.monitor = "none"
        model().fit(Points(4), Points(4), 4, verbose=0, callbacks=stop)


@pytest.mark.usefixtures("at_once")
def test_what_is_refused() -> None:
    net = paddle.nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"network is a paddle\.nn\.Layer, not int"):
        paddle.Model(3)
    with pytest.raises(RuntimeError, match="prepare"):
        paddle.Model(net).fit(Points(2))
    with pytest.raises(TypeError, match="'loss' must be"):
        paddle.Model(net).prepare(None, 3)
    with pytest.raises(AssertionError, match="int is not sub class of Metric"):
        paddle.Model(net).prepare(None, None, [3])
    with pytest.raises(TypeError, match="a callback is"):
        model().fit(Points(2), callbacks=[3])
    with pytest.raises(ImportError, match="visualdl"):
        model().fit(Points(2), verbose=0, callbacks=paddle.callbacks.VisualDL("log"))
    with pytest.raises(ImportError, match="Weights & Biases"):
        paddle.callbacks.WandbCallback()
    paddle.enable_static()
    with pytest.raises(TypeError, match="couldn't be None"):
        paddle.Model(paddle.nn.Linear(2, 2))

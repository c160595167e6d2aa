"""The Trainer and the Inferencer of Fluid 1.0's guides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.fluid.contrib.inferencer import Inferencer
from refluid.fluid.contrib.trainer import (
    BeginEpochEvent,
    BeginStepEvent,
    CheckpointConfig,
    EndEpochEvent,
    EndStepEvent,
    Trainer,
)

BATCHES, ROWS = 6, 4


def _infer() -> Any:
    x = fluid.layers.data("x", [3])
    attr = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.1))
    return fluid.layers.fc(x, 1, param_attr=attr)


def _train() -> Any:
    predicted = _infer()
    y = fluid.layers.data("y", [1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(predicted, y))
    return [loss, fluid.layers.reduce_max(predicted)]


def _adam() -> Any:
    return fluid.optimizer.Adam(0.05)


def _reader() -> Iterator[list[tuple[Any, Any]]]:
    random = np.random.RandomState(0)
    for _ in range(BATCHES):
        x = random.randn(ROWS, 3).astype("float32")
        yield [(row, row.sum(keepdims=True)) for row in x]


def _losses(trainer: Trainer, epochs: int = 2, stop: tuple[int, int] | None = None) -> list[float]:
    """The loss of each step, until one after which the training is stopped."""
    found: list[float] = []

    def handler(event: Any) -> None:
        if isinstance(event, EndStepEvent):
            found.append(float(np.mean(event.metrics[0])))  # one of each replica
            if (event.epoch, event.step) == stop:
                trainer.stop()

    trainer.train(epochs, handler, _reader, ["x", "y"])
    return found


def test_events_tell_of_epochs_and_steps() -> None:
    trainer, seen = Trainer(_train, _adam), []

    def handler(event: Any) -> None:
        seen.append(event)
        if isinstance(event, BeginStepEvent):
            event.fetch_metrics = event.step != 1
        if isinstance(event, EndStepEvent) and event.step == 2:
            trainer.stop()

    trainer.train(num_epochs=3, event_handler=handler, reader=_reader, feed_order=["x", "y"])
    kinds = [type(event) for event in seen]
    assert kinds == [BeginEpochEvent, *[BeginStepEvent, EndStepEvent] * 3]
    assert [event.step for event in seen[2::2]] == [0, 1, 2]
    assert [len(event.metrics) for event in seen[2::2]] == [2, 0, 2]
    seen.clear()
    trainer.train(1, seen.append, _reader, {"y": 1, "x": 0})  # a stop is for one training
    assert isinstance(seen[-1], EndEpochEvent)
    assert len(seen) == 2 + 2 * BATCHES


def test_what_it_trained_is_applied(tmp_path: Path) -> None:
    trainer = Trainer(_train, _adam, place=fluid.CPUPlace())
    losses = _losses(trainer, epochs=20)
    assert losses[-1] < losses[0] / 4
    assert _losses(Trainer(_train, _adam), epochs=20) == losses  # each has a scope of its own
    trainer.save_params(str(tmp_path))
    x = np.array([[1, 2, 3], [0, 0, 1]], "float32")
    found = Inferencer(_infer, str(tmp_path)).infer({"x": x})[0]
    cells = [trainer.scope.find_var(f"fc_0.{one}_0") for one in "wb"]
    weight, bias = (np.array(cell.get_tensor()) for cell in cells if cell)
    np.testing.assert_allclose(found, x @ weight + bias, rtol=1e-6)
    held = Inferencer(lambda: [_infer()], str(tmp_path), parallel=True).infer({"x": x}, False)[0]
    assert isinstance(held, fluid.core.LoDTensor)
    np.testing.assert_allclose(np.array(held), found, rtol=1e-6)
    with pytest.raises(ValueError, match="dict of inputs"):
        Inferencer(_infer, str(tmp_path)).infer([x])  # type: ignore[arg-type]


def test_tests_give_the_means_over_batches(tmp_path: Path) -> None:
    trainer = Trainer(_train, _adam)
    rows = [row for batch in _reader() for row in batch]
    predicted = np.array([0.1 * x.sum() for x, _ in rows]).reshape(BATCHES, ROWS)
    wrong = predicted - np.array([y[0] for _, y in rows]).reshape(BATCHES, ROWS)
    expected = [np.square(wrong).mean(), predicted.max(1).mean()]
    assert trainer.test(_reader, ["x", "y"]) == pytest.approx(expected, rel=1e-5)
    assert trainer.test(_reader) == trainer.test(_reader, ["x", "y"])
    _losses(trainer)
    trainer.save_params(tmp_path)
    begun = Trainer(_train, _adam, param_path=str(tmp_path))
    assert begun.test(_reader) == trainer.test(_reader)


def test_an_inference_model_is_saved(tmp_path: Path) -> None:
    trainer = Trainer(_train, _adam)
    trainer.save_inference_model(str(tmp_path), ["x"], [1])
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        program, names, targets = fluid.io.load_inference_model(str(tmp_path), exe)
        found = exe.run(program, {names[0]: np.array([[1, 2, 3]], "float32")}, targets)
    np.testing.assert_allclose(found[0], [0.6], rtol=1e-6)


def test_replicas_train_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", "2")
    one, two = (Trainer(lambda: _train()[0], _adam, parallel=many) for many in (False, True))
    np.testing.assert_allclose(_losses(two), _losses(one), rtol=1e-5)


def test_training_goes_on_after_the_latest_checkpoint(tmp_path: Path) -> None:
    whole = _losses(Trainer(_train, _adam))
    config = CheckpointConfig(str(tmp_path), max_num_checkpoints=2, step_interval=2)
    begun = _losses(Trainer(_train, _adam, checkpoint_config=config), stop=(0, 5))
    assert begun == whole[:6]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint_1", "checkpoint_2"]
    ends = {path.name: path.read_text() for path in (tmp_path / "checkpoint_2/trainer_0").iterdir()}
    assert ends == {"epoch_id": "0", "step_id": "4"}
    went_on = Trainer(_train, _adam, checkpoint_config=config)
    assert _losses(went_on) == whole[5:]
    assert len(_losses(went_on, epochs=1)) == BATCHES


def test_what_it_cannot_do_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(_train, fluid.optimizer.SGD(0.1))  # type: ignore[arg-type]  # as a guide does
    assert len(_losses(trainer)) == 2 * BATCHES
    with pytest.raises(TypeError, match="gives an Optimizer"):
        Trainer(_train, lambda: 0.1)  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match="reader"):
        trainer.train(1, print)
    with pytest.raises(ValueError, match="step_interval"):
        CheckpointConfig(step_interval=0)
    monkeypatch.setenv("PADDLE_PSERVER_IPS", "127.0.0.1")
    with pytest.raises(NotImplementedError, match="parameter servers"):
        Trainer(_train, _adam)

"""Recorded plans: bit for bit what the operators compute, for as long as the recording fits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.runtime.recorded import compile, tiers, trial
from refluid.runtime.recorded.compile import compile_steps

layers = fluid.layers
Batch = dict[str, np.ndarray[Any, Any]]


def _images() -> Any:
    image = fluid.data("image", [None, 3, 8, 8])
    net = layers.conv2d(image, 8, 3, padding=1, bias_attr=False)
    net = layers.batch_norm(net, act="relu")
    net = layers.pool2d(net, 2, "max", 2)
    net = layers.dropout(net, 0.3, seed=5)
    return layers.fc(layers.pool2d(net, global_pooling=True, pool_type="avg"), 4, act="softmax")


def _words() -> Any:
    words = fluid.data("words", [None, 6], "int64")
    net = fluid.embedding(words, [30, 8], is_sparse=True)
    net = layers.layer_norm(layers.gelu(layers.fc(net, 8, num_flatten_dims=2)), 2)
    net = layers.stack(layers.unstack(net, 1), 1)
    return layers.fc(layers.reduce_max(net, 1), 4, act="softmax")


def _loop() -> Any:
    image = fluid.data("image", [None, 3, 8, 8])
    rows = layers.transpose(layers.reduce_mean(image, 1), [1, 0, 2])
    rnn = layers.StaticRNN()
    with rnn.step():
        row = rnn.step_input(rows)
        memory = rnn.memory(shape=[-1, 5], batch_ref=row)
        state = layers.fc([row, memory], 5, act="tanh")
        rnn.update_memory(memory, state)
        rnn.step_output(state)
    return layers.fc(layers.reduce_mean(rnn(), 0), 4, act="softmax")


def _batch(rows: int, seed: int = 0) -> Batch:
    random = np.random.RandomState(seed)
    return {
        "image": random.rand(rows, 3, 8, 8).astype("float32"),
        "words": random.randint(0, 30, (rows, 6)),
        "label": random.randint(0, 4, (rows, 1)),
    }


class Model:
    """A small network with its own programs and scope."""

    def __init__(self, network: Callable[[], Any], optimizer: Any = None) -> None:
        self.main, startup = fluid.Program(), fluid.Program()
        self.main.random_seed = startup.random_seed = 7
        with fluid.unique_name.guard(), fluid.program_guard(self.main, startup):
            label = fluid.data("label", [None, 1], "int64")
            self.loss = layers.mean(layers.cross_entropy(network(), label))
            (optimizer or fluid.optimizer.Adam(0.01)).minimize(self.loss)
        self.scope, self.executor = fluid.Scope(), fluid.Executor()
        self.executor.run(startup, scope=self.scope)
        block = self.main.global_block()
        self.inputs = [name for name in _batch(1) if name in block.vars]

    def step(self, batch: Batch) -> float:
        """Trains on one batch; the loss."""
        feed = {name: batch[name] for name in self.inputs}
        (loss,) = self.executor.run(self.main, feed, [self.loss], scope=self.scope)
        return float(loss[0])

    def state(self) -> dict[str, bytes]:
        """All that lives in the scope, bit for bit."""
        names = [var.name for var in self.main.list_vars() if var.persistable]
        return {
            name: np.asarray(self.scope.find_var(name).get_tensor()).tobytes() for name in names
        }


NETWORKS = {"images": _images, "words": _words, "loop": _loop}
OPTIMIZERS = {
    "adam": lambda: fluid.optimizer.Adam(0.01),
    "momentum": lambda: fluid.optimizer.Momentum(
        layers.exponential_decay(0.1, 2, 0.5), 0.9, regularization=fluid.regularizer.L2Decay(1e-3)
    ),
    "lamb": lambda: fluid.optimizer.Lamb(0.01),
}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_bit_is_the_same(network: str, optimizer: str) -> None:
    if (network, optimizer) == ("words", "lamb"):
        pytest.skip("lamb takes no sparse gradient")
    found = []
    for tier in ("interpreted", "recorded"):
        with flags.override({"FLAGS_refluid_tier": tier}), fluid.unique_name.guard():
            main = fluid.Program()
            with fluid.program_guard(main, fluid.Program()):
                model = _model_with(network, optimizer)
            losses = [model.step(_batch(4, number)) for number in range(4)]
            found.append((losses, model.state()))
    assert found[0] == found[1]
    assert len(set(found[0][0])) == 4


def _model_with(network: str, optimizer: str) -> Model:
    class Late:
        """An optimizer whose schedule is made inside the model's program."""

        def minimize(self, loss: Any) -> None:
            OPTIMIZERS[optimizer]().minimize(loss)

    return Model(NETWORKS[network], Late())


@pytest.mark.parametrize("after", [0, 1, 6])
def test_flags_say_when_a_step_is_recorded(after: int, said: Callable[[], list[str]]) -> None:
    model = Model(_images)
    with flags.override({"FLAGS_refluid_record_after": after}):
        for _ in range(after):
            model.step(_batch(4))
        assert said() == []
        model.step(_batch(4))
    assert "recorded a step" in said()[0]


def test_recordings_follow_shapes(said: Callable[[], list[str]]) -> None:
    model = Model(_images)
    for _ in range(3):
        model.step(_batch(4))
    assert said() == []
    model.step(_batch(4))
    assert "recorded a step for feeds of shapes" in said()[0]
    for _ in range(4):
        model.step(_batch(2))
    assert "[2, 3, 8, 8]" in said()[0]
    for rows in (4, 2, 4):
        model.step(_batch(rows))
    assert said() == []


def test_long_plans_are_recorded_later(
    said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "LONG", 10)
    model = Model(_images)
    model.step(_batch(4))
    made = [one for each in model.executor._group.cache.values() for one in each.steps.values()]
    before = tiers.before_recording() + len(made[-1].written.source.steps) // 10
    for _ in range(before - 1):
        model.step(_batch(4))
    assert said() == []
    model.step(_batch(4))
    assert "recorded a step" in said()[0]


def test_parameters_may_be_replaced() -> None:
    results = []
    for tier in ("interpreted", "recorded"):
        with flags.override({"FLAGS_refluid_tier": tier}):
            model = Model(_images)
            losses = [model.step(_batch(4))]
            name = model.main.all_parameters()[0].name
            tensor = model.scope.find_var(name).get_tensor()
            losses.append(model.step(_batch(4)))
            tensor.set(np.full(tensor.shape(), 0.5, "float32"), fluid.CPUPlace())
            losses += [model.step(_batch(4)), model.step(_batch(4))]
            results.append((losses, model.state()))
    assert results[0] == results[1]


def test_feeds_that_share_memory(said: Callable[[], list[str]]) -> None:
    with fluid.program_guard(fluid.Program()), flags.override({"FLAGS_refluid_tier": "recorded"}):
        x, y = fluid.data("x", [2]), fluid.data("y", [2])
        total = x - y
        executor, one, two = fluid.Executor(), np.ones(2, "float32"), np.zeros(2, "float32")
        program = fluid.default_main_program()
        for given, expected in ((one, 0.0), (two, 1.0)):
            (result,) = executor.run(program, {"x": one, "y": given}, [total])
            assert result.tolist() == [expected, expected]
    assert "two of its variables share memory" in said()[0]


def test_random_numbers_go_on() -> None:
    with fluid.program_guard(fluid.Program()), flags.override({"FLAGS_refluid_tier": "recorded"}):
        free, fixed = layers.uniform_random([4]), layers.uniform_random([4], seed=3)
        executor = fluid.Executor()
        runs = [
            executor.run(fluid.default_main_program(), fetch_list=[free, fixed]) for _ in range(4)
        ]
    assert len({run[0].tobytes() for run in runs}) == 4
    assert len({run[1].tobytes() for run in runs}) == 1


def test_python_code_is_called_each_time() -> None:
    seen = []

    def note(x: Any) -> Any:
        seen.append(float(np.asarray(x).sum()))
        return np.asarray(x) * len(seen)

    with fluid.program_guard(fluid.Program()), flags.override({"FLAGS_refluid_tier": "recorded"}):
        x = fluid.data("x", [2])
        out = (
            fluid.default_main_program()
            .current_block()
            .create_var(name="out", shape=[2], dtype="float32")
        )
        layers.py_func(note, layers.scale(x, 2.0), out)
        results = [
            fluid.Executor().run(feed={"x": np.full(2, n, "float32")}, fetch_list=[out])[0][0]
            for n in range(1, 4)
        ]
    assert seen == [4.0, 8.0, 12.0]
    assert results == [2.0, 8.0, 18.0]


def test_errors_name_the_operator_and_the_line() -> None:
    with flags.override({"FLAGS_refluid_tier": "recorded"}):
        model = Model(_words)
        model.step(_batch(4))
        batch = _batch(4) | {"label": np.full((4, 1), 99)}
        with pytest.raises(EnforceNotMet, match=r"cross_entropy.*(\n.*)*test_recorded\.py"):
            model.step(batch)
        assert np.isfinite(model.step(_batch(4)))


def _compiled_by(monkeypatch: pytest.MonkeyPatch, compiler: Any) -> None:
    def compile_with(steps: Any, lookups: Any = frozenset()) -> Any:
        return compile_steps(steps, compiler, lookups)

    monkeypatch.setattr(compile, "compile_steps", compile_with)
    monkeypatch.setattr(trial, "_TIMED", 1)
    monkeypatch.setattr(trial, "_SECONDS", 0.0)


def _train(model: Model, steps: int) -> list[float]:
    """Losses of steps, from the second on by what the trial gives."""
    losses = []
    for number in range(steps):
        losses.append(model.step(_batch(4, number)))
        for thread in threading.enumerate():
            if thread.name == "refluid-compile":
                thread.join()
    return losses


@pytest.mark.parametrize("network", NETWORKS)
def test_graphs_handed_to_the_compiler(
    network: str, monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    _compiled_by(monkeypatch, lambda module, *_laid: module)
    found = []
    for tier in ("interpreted", "compiled"):
        with flags.override({"FLAGS_refluid_tier": tier}):
            model = Model(NETWORKS[network])
            found.append((_train(model, 6), model.state()))
    assert found[0] == found[1]
    assert "compiled a step" in said()[-1]


def test_training_goes_on_if_nothing_can_be_compiled(
    monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    def fail(module: Any, *_laid: Any) -> Any:
        raise NotImplementedError("no such machine")

    _compiled_by(monkeypatch, fail)
    with flags.override({"FLAGS_refluid_tier": "compiled"}):
        losses = _train(Model(_images), 4)
    assert np.isfinite(losses).all()
    assert said()[-1].endswith("could not be compiled: NotImplementedError: no such machine")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("network", NETWORKS)
def test_compiled_steps_agree(
    network: str, monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(trial, "_SECONDS", 0.0)  # so few steps end a trial
    found = []
    for tier in ("interpreted", "compiled"):
        with flags.override({"FLAGS_refluid_tier": tier}):
            found.append(_train(Model(NETWORKS[network]), 16))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)
    assert "compiled a step" in said()[-1]

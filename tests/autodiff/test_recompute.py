"""Recomputing from checkpoints: the recorded operators, and the same numbers as without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.autodiff import append_backward
from refluid.ir.editor import Editor
from refluid.ir.operator import Operator
from tests.autodiff.recorded import Recorded, read_program, take_apart
from tests.autodiff.recorded_gradients import recorded_gradients
from tests.autodiff.test_recorded_backward import _compare
from tests.golden import GOLDEN, needs_golden

EXAMPLE = "ops/paddle.fluid.optimizer.RecomputeOptimizer"
RECORDED = {
    "zoo/bert_recompute/main.pb": ["fc_5.tmp_1", "fc_11.tmp_1"],
    f"{EXAMPLE}-0/auto.000.npz": ["fc_0.tmp_1", "fc_1.tmp_2"],
    f"{EXAMPLE}.backward-0/auto.000.npz": ["fc_0.tmp_1", "fc_1.tmp_2"],
}


def _take_apart(path: Path) -> tuple[Recorded, list[list[Operator]]]:
    """The forward program, and the operators of the two blocks that recomputing leaves."""
    program = read_program(path)
    left = [block.ops for block in program.blocks[1:]]
    del program.blocks[1:]
    recorded = take_apart(program)
    block = recorded.block
    Editor(block).forget_variables(name for name in list(block.vars) if ".subprog_" in name)
    return recorded, left


@needs_golden
@pytest.mark.parametrize("case", RECORDED)
def test_recorded_operators(case: str) -> None:
    recorded, left = _take_apart(GOLDEN / case)
    before = len(recorded.block.ops)
    append_backward(
        recorded.target(),
        recorded.parameters(),
        recorded.stopped(),
        checkpoints=RECORDED[case],
        make_gradients=recorded_gradients,
    )
    _compare(recorded.block.ops[before:], recorded.passes[0])
    assert [(one.parent_idx, len(one.vars)) for one in recorded.program.blocks[1:]] == [
        (0, 0),
        (1, 0),
    ]
    for block, wanted in zip(recorded.program.blocks[1:], left, strict=True):
        _compare(block.ops, wanted)


def _train(checkpoints: Sequence[str], dropout: float = 0.0) -> list[Any]:
    """Losses and parameters of three steps of a network of four layers."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [-1, 4])
        for number in range(3):
            x = fluid.layers.fc(x, 5, act="tanh", name=f"layer{number}")
            x = fluid.layers.dropout(x, dropout, name=f"thin{number}") if dropout else x
        loss = fluid.layers.mean(fluid.layers.fc(x, 1))
        adam: Any = fluid.optimizer.Adam(0.1)
        if checkpoints:
            adam = fluid.optimizer.RecomputeOptimizer(adam)
            adam._set_checkpoints(list(checkpoints))
        adam.minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    made = []
    with fluid.scope_guard(scope):
        exe.run(startup)
        for step in range(3):
            fed = np.random.RandomState(step).randn(6, 4).astype("float32")
            made += exe.run(main, {"x": fed}, [loss])
        made += [np.array(scope.find_var(one.name).get_tensor()) for one in main.all_parameters()]
    return made


@pytest.mark.parametrize("checkpoints", [["layer0.tmp_2"], ["layer1.tmp_2", "layer0.tmp_1"]])
def test_the_numbers_stay(checkpoints: list[str]) -> None:
    for one, other in zip(_train(checkpoints), _train([]), strict=True):
        np.testing.assert_array_equal(one, other)


def _kept_after(build: Callable[[Any], Any], checkpoint: bool) -> dict[str, Any]:
    """The loss, and all that three steps leave, of a network between two layers.

    build: from the first layer's output to what the second gets, and a checkpoint.
    """
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        inner, kept = build(fluid.layers.fc(fluid.data("x", [6, 4]), 6, act="tanh"))
        loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(inner, 1)))
        optimizer: Any = fluid.optimizer.SGD(0.1)
        if checkpoint:
            optimizer = fluid.optimizer.RecomputeOptimizer(optimizer)
            optimizer._set_checkpoints([kept])
        optimizer.minimize(loss)
    assert checkpoint == any(".subprog_" in name for name in main.global_block().vars)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup, scope=scope)
    for step in range(3):
        fed = np.random.RandomState(step).randn(6, 4).astype("float32")
        found = {"loss": exe.run(main, {"x": fed}, [loss], scope=scope)[0]}
    names = [var.name for var in main.list_vars() if var.persistable]
    return found | {name: np.array(scope.find_var(name).get_tensor()) for name in names}


def _norms(x: Any) -> Any:
    for _ in range(3):
        x = kept = fluid.layers.batch_norm(fluid.layers.fc(x, 6), act="tanh")
    return x, kept


def _overwritten(x: Any) -> Any:
    """Variables get another shape: one within a segment, one that others read behind it."""
    for shape in ([3, 12], [6, 6]):
        x = fluid.layers.tanh(fluid.layers.fc(x, 12 if shape[0] == 3 else 6))
        fluid.layers.reshape(x, shape if shape[0] == 6 else [6, 12], inplace=True)
        x = fluid.layers.tanh(x)
    kept = fluid.layers.scale(x, 2.0)
    last = fluid.layers.fc(kept, 6)
    fluid.layers.reshape(last, [3, 12], inplace=True)
    return fluid.layers.tanh(last), kept


def _loop(x: Any) -> Any:
    rnn = fluid.layers.StaticRNN()
    steps = fluid.layers.reshape(fluid.layers.scale(x, 2.0), [3, 2, 6])
    shared = fluid.layers.tanh(fluid.layers.reduce_mean(fluid.layers.square(x), 0))
    with rnn.step():
        now = rnn.step_input(steps)
        before = rnn.memory(shape=[-1, 6], batch_ref=now)
        after = fluid.layers.fc([now, fluid.layers.elementwise_add(before, shared)], 6, act="tanh")
        rnn.update_memory(before, after)
        rnn.step_output(after)
    kept = fluid.layers.reshape(rnn(), [6, 6])
    return fluid.layers.tanh(kept), kept


@pytest.mark.parametrize("build", [_norms, _overwritten, _loop])
def test_state_overwriting_and_loops(build: Any) -> None:
    """Statistics move once, overwritten values aren't read again, loops run once."""
    expected = _kept_after(build, checkpoint=False)
    for name, value in _kept_after(build, checkpoint=True).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-6, atol=1e-7, err_msg=name)


def test_dropout_drops_the_same_again() -> None:
    """The gradient of what was dropped is 0; another mask would give another one."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [-1, 50])
        scale = fluid.layers.create_parameter([50], "float32", name="scale")
        thinned = fluid.layers.dropout(fluid.layers.elementwise_mul(x, scale), 0.5)
        end = fluid.layers.tanh(thinned)
        loss = fluid.layers.mean(end)
        grads = append_backward(loss, checkpoints=[end])
    assert "seed" in [op.type for op in main.global_block().ops]
    again = [op for op in main.global_block().ops if op.type == "dropout"]
    assert len(again) == 2
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    fed = np.ones((1, 50), "float32")
    kept, grad = exe.run(main, {"x": fed}, [thinned, grads[0][1]])
    assert 0 < np.count_nonzero(kept) < 50
    np.testing.assert_array_equal(kept.reshape(-1) == 0, grad == 0)


def test_a_checkpoint_is_on_the_way() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [-1, 4])
        side, loss = fluid.layers.fc(x, 2), fluid.layers.mean(fluid.layers.fc(x, 2))
        with pytest.raises(ValueError, match="not computed on the way to the loss"):
            append_backward(loss, checkpoints=[side])


def test_checkpoints_have_to_be_set() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [-1, 4]), 2))
        optimizer = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1))
        with pytest.raises(AssertionError, match="_set_checkpoints"):
            optimizer.minimize(loss)
        with pytest.raises(NotImplementedError):
            optimizer.load({})

"""What is said of an error in a plan's source."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.analysis.uses import key_of
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.runtime.failure import explain
from refluid.runtime.recorded.trial import Trial
from refluid.runtime.source import PlanSource
from refluid.runtime.steps import Bind
from refluid.runtime.trees import Formula

NAME = "<a plan of this test>"


def _explained(*lines: str) -> Exception:
    """Of an error that the last line of a step raises, which is that of relu of x, as v0."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [2], "float32")
        fluid.layers.relu(x)
    (op,) = main.global_block().ops
    source = PlanSource()
    source.steps = [Bind(None, Formula(line, ())) for line in lines]
    source.steps[-1].op = op
    namespace: dict[str, Any] = {}
    exec(compile(source.text, NAME, "exec"), namespace)
    with pytest.raises(Exception) as raised:
        namespace["step"]((), (), ())
    return explain(raised.value, NAME, source, {key_of(op.block, "x"): "v0"})


def test_what_was_never_set_is_not_initialized() -> None:
    for lines in (["v0 = None", "v0.relu()"], ["del_ = 1", "v0 += 1"]):
        error = _explained(*lines)
        assert isinstance(error, EnforceNotMet)
        assert "X(x) is not initialized" in str(error)


def test_what_is_no_longer_held_was_not_missing() -> None:
    error = _explained("v0 = 1", "del v0", "raise RuntimeError('a kernel refuses')")
    assert "operator relu failed: a kernel refuses" in str(error)
    assert "X(x): no longer held" in str(error)
    assert "not initialized" not in str(error)


def test_what_an_operator_did_not_make_is_said_to_come_from_it() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [None, 2], "float32", lod_level=1)
        pooled = fluid.layers.sequence_pool(x, "sum")
        (pool,) = pooled.block.ops
        out = fluid.layers.relu(pooled.block.var(pool.output("MaxIndex")[0]))
    tensor = fluid.create_lod_tensor(np.ones((3, 2), "float32"), [[1, 2]], fluid.CPUPlace())
    with pytest.raises(EnforceNotMet) as raised:
        fluid.Executor().run(main, {"x": tensor}, [out])
    message = str(raised.value)
    assert "relu Op's Input Variable X(" in message
    assert "Operator sequence_pool, made here, gave no value for its output MaxIndex" in message
    assert message.count(__file__) == 2


def test_another_error_is_not_for_a_missing_value() -> None:
    error = _explained("v0 = None", "raise IndexError('index out of range in self')")
    assert "operator relu failed: index out of range in self" in str(error)


def _lookup(v2: bool, sparse: bool) -> tuple[Any, Any, Any]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        ids = fluid.data("ids", [None, 1], "int64")
        rows = (fluid.embedding if v2 else fluid.layers.embedding)(ids, [10, 4], is_sparse=sparse)
        loss = fluid.layers.mean(fluid.layers.tanh(fluid.layers.reshape(rows, [-1, 4])))
        fluid.optimizer.SGD(0.1).minimize(loss)
    return main, startup, loss


def _says(main: Any, bad: int, run: Any) -> None:
    ids = np.arange(6).reshape(6, 1)
    ids[4] = bad
    with pytest.raises(EnforceNotMet) as raised:
        run(ids)
    (op,) = [one for one in main.global_block().ops if one.type.startswith("lookup_table")][:1]
    message = str(raised.value)
    assert f"operator {op.type} failed" in message
    assert f"expected >= 0 and < 10, but got {bad}" in message
    assert "element 4 of 'ids' is no row of the table, which has 10" in message
    assert __file__ in message


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("steps", [0, 6])
def test_an_id_that_is_no_row_is_named(v2: bool, sparse: bool, steps: int) -> None:
    """Interpreted, and in a step that was recorded."""
    main, startup, loss = _lookup(v2, sparse)
    executor = fluid.Executor()
    with fluid.scope_guard(fluid.core.Scope()):
        executor.run(startup)

        def run(ids: Any) -> Any:
            return executor.run(main, {"ids": ids}, [loss])

        for _ in range(steps):
            run(np.arange(6).reshape(6, 1))
        for bad in (-3, 10, 10**12):
            _says(main, bad, run)


@pytest.mark.parametrize("bad", [-3, 10])
@pytest.mark.parametrize("layer", ["gather", "scatter"])
def test_a_row_that_is_none_is_named(layer: str, bad: int) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [4, 2], "float32")
        rows = fluid.data("rows", [2], "int64")
        more = [fluid.data("updates", [2, 2], "float32")] if layer == "scatter" else []
        out = getattr(fluid.layers, layer)(x, rows, *more)
    feed = {"x": np.ones((4, 2), "float32"), "rows": np.array([1, bad])}
    feed |= {"updates": np.ones((2, 2), "float32")} if more else {}
    says = f"operator {layer} failed.*expected >= 0 and < 4, but got {bad}.*element 1 of 'rows'"
    with pytest.raises(EnforceNotMet, match=says):
        fluid.Executor().run(main, feed, [out])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_id_that_is_no_row_is_named_by_compiled_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Any] = []

    def at_once(trial: Trial, holder: Any) -> Any:
        if trial._compiled is None:
            trial._work()
        used.append(trial._compiled)
        return trial._compiled

    monkeypatch.setattr(Trial, "next", at_once)
    main, startup, loss = _lookup(False, False)
    executor = fluid.Executor()
    with (
        fluid.scope_guard(fluid.core.Scope()),
        flags.override({"FLAGS_refluid_tier": "compiled"}),
    ):
        executor.run(startup)

        def run(ids: Any) -> Any:
            return executor.run(main, {"ids": ids}, [loss])

        for _ in range(6):
            run(np.arange(6).reshape(6, 1))
        assert used
        for bad in (-3, 10):
            _says(main, bad, run)

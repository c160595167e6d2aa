"""Dense gradients of large tables become rows where plain SGD is all that sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.core.dtypes import VarType
from refluid.core.selected_rows import SelectedRows
from refluid.engine import pipeline
from refluid.engine.setting import Setting
from refluid.ops.registry import find
from refluid.passes import add_table_rows as module
from tests.passes.rewriting import passed

FLAG, NAME = "FLAGS_refluid_found_rows", "update_table_rows"
layers = fluid.layers


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of any size count as large."""
    monkeypatch.setattr(module, "_LARGE", 1)


class Model:
    """A table of words, and what is made of some of its rows."""

    def __init__(
        self,
        optimizer: Callable[[], Any],
        words: int = 40,
        width: int = 3,
        dtype: str = "float32",
        **options: Any,
    ) -> None:
        self.words, self.main, self.startup = words, fluid.Program(), fluid.Program()
        self.startup.random_seed = 3
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            ids = fluid.data("ids", [None, None], "int64")
            found = fluid.embedding(ids, [words, width], param_attr="table", dtype=dtype, **options)
            hidden = layers.fc(found, 4, num_flatten_dims=2, act="tanh")
            self.loss = layers.mean(layers.square(hidden))
            optimizer().minimize(self.loss)

    def fused(self, *kept: str) -> Any:
        return passed(self.main, "fuse_squared_norm", NAME, kept=[self.loss.name, *kept])

    def run(self, batches: list[Any], fetches: list[str], *, rows: bool) -> list[Any]:
        """What is fetched in each step, and the table afterwards."""
        executor, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        with flags.override({FLAG: rows}):
            executor.run(self.startup, scope=scope)
            found = [
                executor.run(self.main, {"ids": one}, [self.loss.name, *fetches], scope=scope)
                for one in batches
            ]
        return [*found, [np.array(scope.find_var("table").get_tensor())]]


def _sgd(**options: Any) -> Callable[[], Any]:
    return lambda: fluid.optimizer.SGD(0.5, **options)


CLIPS = {
    "plain": lambda: None,
    "global": lambda: fluid.clip.GradientClipByGlobalNorm(0.01),
    "each": lambda: fluid.clip.GradientClipByNorm(0.01),
    "loose": lambda: fluid.clip.GradientClipByGlobalNorm(100.0),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("seed", range(6))
def test_any_batches(seed: int, clip: str) -> None:
    """Of few words and many, the same ones again, and none of some; recorded after three steps."""
    draws = np.random.default_rng(seed)
    words, width = (int(n) for n in draws.integers(1, 60, size=2))
    options: dict[str, Any] = {"dtype": str(draws.choice(["float32", "float64"]))}
    if draws.random() < 0.5:
        options["padding_idx"] = int(draws.integers(words))
    model = Model(_sgd(grad_clip=CLIPS[clip]()), words, width, **options)
    assert model.fused().reports[NAME].made
    batches = []
    for _ in range(3):
        shape = [int(n) for n in draws.integers(1, 9, size=2)]
        some = draws.integers(0, words, size=draws.integers(1, words + 1))
        batches += [draws.choice(some, size=shape) for _ in range(4)]
    found, known = (model.run(batches, [], rows=rows) for rows in (True, False))
    for step, (ours, dense) in enumerate(zip(found, known, strict=True)):
        for one, other in zip(ours, dense, strict=True):
            np.testing.assert_allclose(one, other, 2e-5, 1e-7, err_msg=f"step {step}")
    untouched = np.setdiff1d(np.arange(words), np.concatenate([one.ravel() for one in batches]))
    np.testing.assert_array_equal(found[-1][0][untouched], known[-1][0][untouched])


@pytest.mark.usefixtures("small")
def test_what_becomes_rows() -> None:
    program = Model(_sgd(grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0))).fused().program
    block = program.global_block()
    (update,) = [op for op in block.ops if op.type == "sgd" and op.input("Param") == ["table"]]
    (scaled,) = update.input("Grad")
    assert block.vars[scaled].type == block.vars["table@GRAD"].type == VarType.SELECTED_ROWS


SEEN_BY_OTHERS: dict[str, Callable[[], Any]] = {
    "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9),
    "adam": lambda: fluid.optimizer.Adam(0.1),
    "decay": _sgd(regularization=fluid.regularizer.L2Decay(0.1)),
    "each number": _sgd(grad_clip=fluid.clip.GradientClipByValue(0.1)),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", SEEN_BY_OTHERS)
def test_others_see_the_zeros(name: str) -> None:
    assert not Model(SEEN_BY_OTHERS[name]).fused().reports[NAME].made


@pytest.mark.usefixtures("small")
def test_a_gradient_that_is_fetched_stays_dense() -> None:
    model = Model(_sgd())
    assert not model.fused("table@GRAD").reports[NAME].made
    (gradient,) = model.run([np.array([[1, 2]])], ["table@GRAD"], rows=True)[0][1:]
    assert gradient.shape == (40, 3)


@pytest.mark.usefixtures("small")
def test_a_gradient_times_another_table_stays_dense() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [None], "int64")
        loss = layers.mean(layers.square(fluid.embedding(ids, [5, 3], param_attr="table")))
        sgd = fluid.optimizer.SGD(0.5)
        ((table, gradient),) = sgd.backward(loss)
        factors = layers.assign(np.arange(15, dtype="float32").reshape(5, 3))
        sgd.apply_gradients([(table, layers.elementwise_mul(gradient, factors))])
    assert not passed(main, NAME).reports[NAME].made


def test_rows_are_found_where_they_are_few() -> None:
    backward = find("lookup_table_v2_grad").body
    for count, kind in (
        (3, SelectedRows),
        (20, SelectedRows),
        (21, torch.Tensor),
        (90, torch.Tensor),
    ):
        ids, grad = torch.arange(count) % 40, torch.ones(count, 2)
        asked = {"is_sparse": True, "as_dense": True, "if_few": True}
        assert type(backward(torch.zeros(40, 2), ids, grad, **asked)) is kind


def test_small_tables_and_replicas_are_left() -> None:
    assert not Model(_sgd()).fused().reports[NAME].made
    wanted = pipeline.BY_NAME[NAME].wanted
    assert wanted(Setting()) and not wanted(Setting(replicas=2))


@pytest.mark.usefixtures("small")
def test_the_flag_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []
    rewrite = module.update_table_rows

    def counted(*given: Any) -> Any:
        called.append(given)
        return rewrite(*given)

    passes = [
        one if one.name != NAME else pipeline.PipelinePass(NAME, counted, one.wanted, one.options)
        for one in pipeline.FUSING
    ]
    monkeypatch.setattr(pipeline, "FUSING", tuple(passes))
    model = Model(_sgd())
    for rows in (False, True):
        called.clear()
        model.run([np.array([[1, 2]])], [], rows=rows)
        assert bool(called) is rows

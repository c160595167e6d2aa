"""Lookups in compiled steps: the same numbers, and the same error where an id is no row."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.kernels.inductor import in_order
from refluid.ops.effects import Effect
from refluid.runtime.recorded import compile as compiling
from refluid.runtime.recorded.compile import compile_steps, is_left
from refluid.runtime.recorded.gathering import checked_lookups
from refluid.runtime.recorded.graph import Compiled, Kernel, Layout, Line, Part, Value
from refluid.runtime.recorded.trial import compiling_at_once
from refluid.runtime.steps import Call
from refluid.runtime.trees import Known, Name

aten: Any = torch.ops.aten
layers = fluid.layers
FLAG = "FLAGS_refluid_gathered_kernels"

# From what is fed, (8, 2), the ids that are looked up: all or some of them, computed, changed.
IDS_OF: list[Callable[[Any], Any]] = [
    *[lambda ids: layers.reshape(ids, [-1, 1])] * 3,
    lambda ids: layers.reshape(layers.slice(ids, [1], [1], [2]), [-1, 1]),
    lambda ids: layers.cast(layers.cast(layers.reshape(ids, [-1, 1]), "int32"), "int64"),
    lambda ids: layers.reshape(layers.elementwise_mod(ids + 1, ids * 0 + 20), [-1, 1]),
]


def _rows_of(ids: Any, source: random.Random) -> Any:
    """A table's rows, (8, 4)."""
    size = [source.choice([12, 20]), 4]
    rows = layers.embedding(ids, size, is_sparse=source.random() < 0.8)
    return layers.reduce_mean(layers.reshape(rows, [8, -1, 4]), dim=1)


def _counted() -> Any:
    """A row of a table by the number of the step, which runs out of rows, (1, 4)."""
    number = layers.create_global_var([1], 13, "int64", persistable=True)
    layers.increment(number, 1)
    return layers.reshape(layers.embedding(number, [20, 4], is_sparse=True), [1, 4])


def _clicks(source: random.Random) -> Any:
    """A network of several tables, whose gradients are rows, and parts that draw numbers."""
    parts = []
    for n in range(source.randint(1, 3)):
        ids = source.choice(IDS_OF)(fluid.data(f"ids{n}", [8, 2], dtype="int64"))
        parts += [_rows_of(ids, source) for _ in range(source.randint(1, 2))]
    crossed = layers.elementwise_mul(source.choice(parts), source.choice(parts))
    if source.random() < 0.3:
        crossed = layers.elementwise_add(crossed, layers.expand(_counted(), [8, 1]))
    hidden = layers.fc(layers.concat(parts, axis=1), 6, act="tanh")
    if source.random() < 0.5:
        hidden = layers.dropout(hidden, 0.3, seed=5)
    joined = layers.concat([hidden, crossed], axis=1)
    return layers.mean(layers.square(layers.fc(joined, 1) - 1.0))


def _fed(source: random.Random, names: Sequence[str]) -> dict[str, Any]:
    """Ids of a batch, of which one in four has some that are no rows."""
    numbers = np.random.default_rng(source.getrandbits(30))
    feed = {name: numbers.integers(0, 12, (8, 2)) for name in names}
    if source.random() < 0.4:
        wrong = source.choice([-1, 12, 12, 12, 20, 2**30, -(2**63)])
        feed[source.choice(names)][source.randrange(8), source.randrange(2)] = wrong
    return feed


def _trained(seed: int) -> list[Any]:
    """Losses, or what is said of a step, and then the parameters."""
    source = random.Random(seed)
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = _clicks(source)
        clip = fluid.clip.GradientClipByValue(0.2) if source.random() < 0.3 else None
        maker = source.choice([fluid.optimizer.Adam, fluid.optimizer.SGD])
        maker(0.1, grad_clip=clip).minimize(loss)
    scope, exe = fluid.Scope(), fluid.Executor()
    exe.run(startup, scope=scope)
    names = [name for name in main.global_block().vars if name.startswith("ids")]
    found: list[Any] = []
    with compiling_at_once():
        for _ in range(8):
            try:
                found += exe.run(main, _fed(source, names), [loss], scope=scope)
            except EnforceNotMet as error:
                found.append(str(error).splitlines()[0])
    found += [np.asarray(scope.find_var(one.name).get_tensor()) for one in main.all_parameters()]
    return [one if isinstance(one, str) else one.tobytes() for one in found]


def _as_it_is(module: GraphModule, *_examples: Any) -> GraphModule:
    """The graph itself, as TorchInductor has it where torch's own kernels do otherwise.

    It lays results that don't fill their memory; and its lookups don't raise what can be caught.
    """

    def laid(tensor: Tensor, strides: Sequence[int]) -> Tensor:
        return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)

    def looked_up(table: Tensor, ids: Tensor, *_others: Any) -> Tensor:
        return table[ids.clamp(0, len(table) - 1)]

    for node in module.graph.nodes:
        if node.target is in_order():
            node.target = laid
        elif node.target is aten.embedding.default:
            node.target = looked_up
    module.recompile()
    return module


@pytest.mark.parametrize("writes", ["", "a kernel", "a line"])
def test_ids_that_are_written_are_not_looked_at_before(writes: str) -> None:
    layout = Layout(torch.Size((8,)), (1,), torch.int64, torch.device("cpu"))
    table = Layout(torch.Size((6, 4)), (4, 1), torch.float32, torch.device("cpu"))
    ids, rows = Value("ids", 1, layout), [Value("table", 2, table), Value("rows", 3, table)]
    fed = Line(Call(Name("x"), Known("feed")), {}, {Name("x"): ids})
    look_up = Kernel(aten.embedding.default, (rows[0], ids), {}, [rows[1]], frozenset())
    steps: list[Part] = [fed, look_up]
    if writes == "a kernel":
        steps.insert(1, Kernel(aten.add_.Tensor, (ids, 1), {}, [ids], frozenset([1])))
    elif writes == "a line":
        change = Call(None, Known("change"), (Name("x"),), acts=Effect.STATE)
        steps.insert(1, Line(change, {Name("x"): ids}, {}))
    assert checked_lookups(steps) == ({} if writes else {look_up: ids})


def test_lookups_by_what_is_fed_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """All in one function, after one look at the ids for the tables of each height."""
    made: list[Part | Compiled] = []

    def compile_with(steps: Sequence[Part], lookups: Any = frozenset()) -> Any:
        found = compile_steps(steps, _as_it_is, lookups)
        made.extend(one for one in found if isinstance(one, Compiled))
        return found

    monkeypatch.setattr(compiling, "compile_steps", compile_with)
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        ids = layers.reshape(fluid.data("ids", [None, 2], dtype="int64"), [-1, 1])
        tables = [layers.embedding(ids, [height, 4], is_sparse=True) for height in (12, 9, 9)]
        loss = layers.mean(layers.square(layers.fc(layers.concat(tables), 2)))
        fluid.optimizer.SGD(0.1).minimize(loss)
        exe, scope = fluid.Executor(), fluid.Scope()
        exe.run(fluid.default_startup_program(), scope=scope)
        made.clear()
        with flags.override({"FLAGS_refluid_tier": "compiled"}), compiling_at_once():
            for _ in range(3):
                exe.run(feed={"ids": np.zeros((3, 2), np.int64)}, fetch_list=[loss], scope=scope)
            with pytest.raises(EnforceNotMet, match="lookup_table"):
                exe.run(feed={"ids": np.full((3, 2), 10)}, fetch_list=[loss], scope=scope)
    checks, functions = [one for one in made if not one.outs], [one for one in made if one.outs]
    assert [one.op.type for one in checks if one.op] == ["lookup_table"] * 2
    assert len(functions) == 1


@pytest.mark.parametrize("seed", range(24))
def test_training_is_the_same_bit_by_bit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[int] = []

    def compile_with(steps: Sequence[Part], lookups: Any = frozenset()) -> Any:
        parts.append(sum(not is_left(one, lookups) for one in steps))
        return compile_steps(steps, _as_it_is, lookups)

    monkeypatch.setattr(compiling, "compile_steps", compile_with)
    found = []
    for gathers in (False, True):
        with flags.override({"FLAGS_refluid_tier": "compiled", FLAG: gathers}):
            found.append(_trained(seed))
    apart, together = parts[: len(parts) // 2], parts[len(parts) // 2 :]
    assert found[0] == found[1]
    assert sum(together) >= sum(apart)
    said = [one for one in found[0] if isinstance(one, str)]
    assert all("operator lookup_table failed: Variable value (input)" in one for one in said)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_torchs_compiler_agrees(seed: int) -> None:
    found = []
    for tier in ("recorded", "compiled"):
        with flags.override({"FLAGS_refluid_tier": tier}):
            found.append(_trained(seed))
    for one, other in zip(*found, strict=True):
        if isinstance(one, str):
            assert one == other
        else:
            pair = np.frombuffer(one, np.float32), np.frombuffer(other, np.float32)
            np.testing.assert_allclose(*pair, rtol=1e-4, atol=1e-6)

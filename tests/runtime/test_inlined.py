"""Plans with sequences, whose operators are written out as calls of torch: the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count, repeat
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.random import RandomSource
from refluid.ops import by_loops
from refluid.runtime.inlined import tiers
from refluid.runtime.inlined.tiers import InlinedTiers
from refluid.runtime.steps import Free

layers: Any = fluid.layers
ROWS = 40
POOLS = ("sum", "average", "sqrt", "max", "first", "last")


def _words() -> tuple[Any, Any]:
    words = fluid.data("words", [None, 1], "int64", lod_level=1)
    return words, layers.embedding(words, (ROWS, 6))


def _convolved() -> Any:
    _, rows = _words()
    found = [
        fluid.nets.sequence_conv_pool(rows, 8, size, act="tanh", pool_type=pool)
        for size, pool in ((3, "max"), (2, "sum"))
    ]
    scores = layers.fc(layers.concat(found, 1), 3, act="softmax")
    label = fluid.data("label", [None, 1], "int64")
    layers.accuracy(scores, label)
    return layers.cross_entropy(scores, label)


def _pooled() -> Any:
    words, rows = _words()
    sparse = layers.embedding(words, (ROWS, 6), is_sparse=True)
    pools = [layers.sequence_pool(rows, kind) for kind in POOLS]
    return layers.fc(layers.concat([*pools, layers.sequence_pool(sparse, "sum")], 1), 2)


def _attending() -> Any:
    _, rows = _words()
    asked = layers.sequence_expand_as(layers.fc(layers.sequence_last_step(rows), 6), rows)
    weight = layers.sequence_softmax(layers.fc(layers.elementwise_mul(asked, rows), 1))
    return layers.sequence_pool(layers.elementwise_mul(rows, weight, axis=0), "sum")


def _dropped() -> Any:
    _, rows = _words()
    dropped = layers.dropout(layers.fc(rows, 5, act="relu"), 0.3)
    return layers.sequence_pool(dropped, "average")


def _recurrent() -> Any:
    _, rows = _words()
    hidden = layers.dynamic_gru(layers.fc(rows, 12), 4)
    return layers.sequence_pool(layers.layer_norm(hidden), "max")


def _padded() -> Any:
    """Sizes that nobody knows before the step reads lengths, after something that counts."""
    ids, length = fluid.data("words", [None, 30], "int64"), fluid.data("length", [None], "int64")
    counted = layers.autoincreased_step_counter()
    rows = layers.sequence_unpad(fluid.embedding(ids, (ROWS, 6)), length)
    pooled = layers.sequence_pool(layers.fc(rows, 20, act="tanh"), "max")
    return layers.elementwise_mul(layers.fc(pooled, 2), layers.cast(counted, "float32"))


NETWORKS = [_convolved, _pooled, _attending, _dropped, _recurrent, _padded]


def _lengths(draw: np.random.RandomState, step: int) -> list[int]:
    """Few rows and many, one sequence and several, empty ones now and then."""
    kind = step % 5
    count = 1 if kind == 1 else draw.randint(2, 7)
    lengths = draw.randint(1, 3 if kind == 2 else 30, count)
    if kind == 3:
        lengths[draw.randint(count)] = 0
    if kind == 4:
        lengths[:] = 1
    return [int(one) for one in lengths]


def _feed(network: Callable[[], Any], draw: np.random.RandomState, step: int) -> dict[str, Any]:
    lengths = [max(one, 1) if network is _convolved else one for one in _lengths(draw, step)]
    label = draw.randint(0, 3, (len(lengths), 1))
    if network is _padded:
        words = draw.randint(0, ROWS, (len(lengths), 30))
        return {"words": words, "length": np.array(lengths)}
    words = draw.randint(0, ROWS, (sum(lengths), 1))
    fed = fluid.create_lod_tensor(words, [lengths], fluid.CPUPlace())
    return {"words": fed, "label": label} if network is _convolved else {"words": fed}


def _built(network: Callable[[], Any]) -> tuple[Any, Any, Any]:
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 7
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = layers.mean(network())
        fluid.optimizer.Adam(0.01).minimize(loss)
    return main, startup, loss


def _trained(network: Callable[[], Any], seed: int, **options: Any) -> list[bytes]:
    """The bits of each step's loss, and of all variables at the end."""
    main, startup, loss = _built(network)
    draw, exe, scope = np.random.RandomState(seed), fluid.Executor(), fluid.Scope()
    with flags.override(options), fluid.scope_guard(scope):
        exe.run(startup)
        RandomSource(torch.device("cpu"))(0).manual_seed(seed)
        found = [
            exe.run(main, feed=_feed(network, draw, step), fetch_list=[loss])[0].tobytes()
            for step in range(25)
        ]
        names = sorted(one.name for one in main.list_vars() if one.persistable)
        values = [scope.find_var(name) for name in names]
        return found + [np.array(one.get_tensor()).tobytes() for one in values if one is not None]


@pytest.fixture(autouse=True)
def _recurrent_units_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_loops, "_calls", repeat(0))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[InlinedTiers]]:
    """The tiers of plans that were made since."""
    found: list[InlinedTiers] = []
    usual = InlinedTiers.__init__

    def init(self: InlinedTiers, *given: Any) -> None:
        usual(self, *given)
        found.append(self)

    monkeypatch.setattr(InlinedTiers, "__init__", init)
    yield found


@pytest.mark.parametrize("network", NETWORKS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_steps_are_the_same_bit_by_bit(
    network: Callable[[], Any], seed: int, made: list[InlinedTiers]
) -> None:
    usual = _trained(network, seed, FLAGS_refluid_tier="interpreted")
    for tier in ("auto", "recorded"):
        made.clear()
        assert _trained(network, seed, FLAGS_refluid_tier=tier) == usual
        assert any(one.ways for one in made)


def test_nothing_is_written_out_where_that_is_switched_off(made: list[InlinedTiers]) -> None:
    usual = _trained(_pooled, 1)
    assert any(one.ways for one in made)
    made.clear()
    assert _trained(_pooled, 1, FLAGS_refluid_inlined_operators=False) == usual
    assert made and not any(one.ways for one in made)


def test_most_operators_are_written_out(made: list[InlinedTiers]) -> None:
    _trained(_convolved, 0)
    (training,) = [one for one in made if one.ways]
    text = training.ways[0].source.text
    assert "lod_X=" not in text
    assert "sequence_pool(" not in text
    assert "mm_of_torch(" in text


def _counts(rows: Sequence[int]) -> list[int]:
    """What a step's counter was in steps that find so many rows."""
    main, startup, _ = _built(_padded)
    exe, draw = fluid.Executor(), np.random.RandomState(0)
    with fluid.scope_guard(fluid.Scope()), flags.override({"FLAGS_refluid_tier": "recorded"}):
        exe.run(startup)
        feeds = [
            {"words": draw.randint(0, ROWS, (1, 30)), "length": np.array([one])} for one in rows
        ]
        found = [exe.run(main, feed=feed, fetch_list=["@STEP_COUNTER@"])[0] for feed in feeds]
    return [int(one[0]) for one in found]


def test_a_step_that_leaves_its_way_goes_on_from_there(
    made: list[InlinedTiers], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = InlinedTiers._rest

    def rest(self: InlinedTiers, way: int, number: int, variables: Any) -> Any:
        """All that was done is there, and nothing else of the plan."""
        assert self._body is not None
        done: set[str] = set()
        for one in self._body[:number]:
            done |= set(one.stores)
            done -= set(one.step.writes) if isinstance(one.step, Free) else set()
        coming = {name for one in self._body[number:] for name in one.stores}
        assert done <= variables.keys()
        assert not (coming - done) & variables.keys()
        return usual(self, way, number, variables)

    monkeypatch.setattr(InlinedTiers, "_rest", rest)
    rows = [20, 20, 3, 25, 2, 1, 22, 2, 30, 4, 3, 2, 19]
    assert _counts(rows) == [*range(1, len(rows) + 1)]
    assert any(one.left for one in made)


def test_a_way_that_many_steps_leave_is_written_anew(made: list[InlinedTiers]) -> None:
    _counts([20] * 3 + [3] * 30)
    (left,) = [one.left for one in made if one.left]
    assert left == tiers.LEFT


@pytest.mark.parametrize("ids", [[1, ROWS], [-1, 2]])
def test_errors_name_the_operator_and_the_value(ids: Sequence[int]) -> None:
    texts = []
    for tier in ("interpreted", "recorded"):
        main, startup, loss = _built(_pooled)
        exe, draw = fluid.Executor(), np.random.RandomState(0)
        with flags.override({"FLAGS_refluid_tier": tier}), fluid.scope_guard(fluid.Scope()):
            exe.run(startup)
            for step in range(6):
                exe.run(main, feed=_feed(_pooled, draw, step), fetch_list=[loss])
            words = fluid.create_lod_tensor(np.array([ids]).T, [[1, 1]], fluid.CPUPlace())
            with pytest.raises(EnforceNotMet) as caught:
                exe.run(main, feed={"words": words}, fetch_list=[loss])
            texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert "lookup_table" in texts[0]


def test_what_acts_outside_is_called_once_a_step(made: list[InlinedTiers]) -> None:
    seen: list[int] = []

    def network() -> Any:
        _, rows = _words()
        layers.py_func(lambda x: seen.append(len(np.array(x))), rows, None)
        return layers.sequence_pool(rows, "sum")

    _trained(network, 0, FLAGS_refluid_tier="recorded")
    assert len(seen) == 25
    assert any(one.ways for one in made)


def test_what_changes_with_the_number_of_calls_stays_as_it_is(
    made: list[InlinedTiers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tags are counted by torch first, by loops later: a way that was written knew torch alone."""

    def network() -> Any:
        words, rows = _words()
        scores = layers.fc(rows, ROWS)
        return layers.linear_chain_crf(scores, words, fluid.ParamAttr(name="crf"))

    monkeypatch.setattr(by_loops, "_calls", count())
    _trained(network, 0, FLAGS_refluid_tier="recorded")
    texts = [way.source.text for one in made for way in one.ways]
    assert texts
    assert all("linear_chain_crf(" in text for text in texts)
    assert all("linear_chain_crf_grad(" in text for text in texts)


def test_few_ways_are_written(made: list[InlinedTiers], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "WAYS", 2)
    usual = _trained(_pooled, 2, FLAGS_refluid_tier="interpreted")
    made.clear()
    assert _trained(_pooled, 2, FLAGS_refluid_tier="recorded") == usual
    assert max(len(one.ways) for one in made) <= 2

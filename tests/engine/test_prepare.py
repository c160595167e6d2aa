"""The one cache: what is prepared once, and what makes it be prepared anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from refluid import fluid
from refluid.core import flags
from refluid.core.scope import Scope
from refluid.engine.cache import Cache
from refluid.engine.group import Group
from refluid.engine.prepare import Wanted, prepare, prepared
from refluid.engine.strategy import DEFAULT
from refluid.runtime.plan import Plan


def program() -> tuple[fluid.Program, str]:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        out = fluid.layers.scale(fluid.data("x", [2]), 2.0)
    return main, out.name


def test_equal_requests_share_what_was_prepared() -> None:
    main, out = program()
    group = Group([fluid.CPUPlace()])
    first = prepared(Wanted(main, ("x",), (out,), DEFAULT, group))
    assert prepared(Wanted(main, ("x",), (out,), DEFAULT, group)) is first
    assert prepared(Wanted(main, ("x",), (out,), replace(DEFAULT), group)) is first
    with flags.override({"FLAGS_eager_delete_tensor_gb": -1.0}):
        assert prepared(Wanted(main, ("x",), (out,), DEFAULT, group)) is not first
    assert prepared(Wanted(main, ("x",), (out,), DEFAULT, group)) is first
    assert first.step(frozenset()) is first.step(frozenset())


def test_whatever_changes_a_plan_is_part_of_the_key() -> None:
    main, out = program()
    group = Group([fluid.CPUPlace()])
    first = prepared(Wanted(main, ("x",), (out,), DEFAULT, group))
    others = [
        prepared(Wanted(main, ("x",), (), DEFAULT, group)),
        prepared(Wanted(main, ("x",), (out,), replace(DEFAULT, enable_inplace=False), group)),
        prepared(Wanted(main, ("x",), (out,), DEFAULT, group, "loss")),
        prepared(Wanted(main, ("x",), (out,), DEFAULT, group, inference=True)),
        prepared(Wanted(main.clone(), ("x",), (out,), DEFAULT, group)),
    ]
    main.touch()
    others.append(prepared(Wanted(main, ("x",), (out,), DEFAULT, group)))
    assert len({id(one) for one in (first, *others)}) == len(others) + 1


def test_a_step_runs() -> None:
    main, out = program()
    step = prepare(main, ("x",), (out,), DEFAULT, Group([fluid.CPUPlace()]))
    (found,) = step.run(Scope(), [torch.tensor([1.0, 2.0])], [[]])
    np.testing.assert_array_equal(found.value, [2.0, 4.0])


def test_the_oldest_goes() -> None:
    cache = Cache()
    for number in range(65):
        cache.keep(number, number)
    assert len(cache) == 64 and 0 not in cache


def test_a_plan_is_lent_to_one_at_a_time_and_kept() -> None:
    group = Group([fluid.CPUPlace()])
    main, out = program()
    ready = prepared(Wanted(main, ("x",), (out,), DEFAULT, group))
    dense: frozenset[str] = frozenset()
    with ready.plan(dense) as first, ready.plan(dense) as second:
        assert first is not second
    with ready.plan(frozenset({"x"})) as ragged, ready.plan(dense) as third:
        assert ragged not in (first, second) and third in (first, second)


def test_threads_never_share_a_plan() -> None:
    """Also where one takes the last idle plan after another saw that it was there."""

    class TakenMeanwhile(list[Plan]):
        def __len__(self) -> int:
            return 1

    main, out = program()
    ready = prepared(Wanted(main, ("x",), (out,), DEFAULT, Group([fluid.CPUPlace()])))
    none = frozenset[str]()
    with ready.plan(none) as first, ready.plan(none) as second:
        assert first is not second
    with ready.plan(none) as again:
        assert again is second or again is first
    ready._idle[none] = TakenMeanwhile()
    with ready.plan(none) as made:
        assert made not in (first, second)

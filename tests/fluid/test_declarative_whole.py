"""Steps of declarative functions that are run as a whole: nobody can tell, whatever is done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.eager.waiting import waiting
from refluid.fluid import dygraph
from refluid.fluid.dygraph.translation import whole
from tests.fluid.declarative_loops import ODD, Loop

layers = fluid.layers
FLAG = "FLAGS_refluid_declarative_whole"
STEPS = 14


def is_dense(slope: Any) -> bool:
    return slope is not None and isinstance(slope.held, torch.Tensor)


def one_step(loop: Loop, odd: float) -> None:
    """A step of training. odd: how often something else is done in between."""
    source = loop.source

    def between() -> None:
        while source.random() < odd:
            source.choice(ODD)(loop)

    losses = loop.net(*loop.feed(source.choice([4, 4, 4, 7])))
    between()
    number = 1 if source.random() < odd else 0
    loss = losses[number]
    if source.random() < odd:
        loop.look(loss.numpy())
    if source.random() < odd:
        loss = loss + losses[1 - number]
    slope = fluid.dygraph.to_variable(np.full([1], source.choice([-2, 3]), "float32"))
    loss.backward(*[slope] if source.random() < odd else [])
    between()
    if source.random() < odd:
        loop.pairs = loop.optimizer.minimize(loss)[1]
    else:
        loop.optimizer.minimize(loss)
    between()
    if loop.pairs is not None and source.random() < 0.5:
        loop.look(*(slope.numpy() for _, slope in loop.pairs if is_dense(slope)))
    if source.random() >= odd:
        loop.net.clear_gradients()
    between()
    loop.look(loss.numpy(), loss.stop_gradient)


def trained(seed: int, odd: float, *, whole_steps: bool) -> list[Any]:
    """All that was seen, and what there is at the end."""
    with flags.override({FLAG: whole_steps}), dygraph.guard():
        loop = Loop(seed)
        for _ in range(STEPS):
            # Some steps are done by the book, so that there are whole ones.
            one_step(loop, odd if loop.source.random() < 0.4 else 0.0)
        loop.gradients()
        loop.look(*(one.numpy() for one in loop.net.state_dict().values()))
        return loop.seen


SLOW = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 40)]


@pytest.mark.parametrize("seed", [*range(5), *SLOW])
def test_random_loops_see_the_same(seed: int) -> None:
    odd = 0.15 + 0.1 * (seed % 3)
    found = trained(seed, odd, whole_steps=True)
    wanted = trained(seed, odd, whole_steps=False)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=2e-5)
    assert waiting.now is None


def test_a_recording_of_equal_gradients_serves_others_too() -> None:
    """Both terms of a sum get one gradient, the very same tensor, and the recording is of that."""
    with flags.override({FLAG: False}), dygraph.guard():
        loop = Loop(4)
        feeds, found = loop.feed(4), []
        for number in range(8):
            losses = loop.net(*feeds)
            loss = losses[0] if number in (0, 7) else losses[0] + losses[1]
            loss.backward()
            found.append(loop.net.second.weight.gradient())
            loop.net.clear_gradients()
        np.testing.assert_allclose(found[7], found[0], rtol=1e-5)


@pytest.mark.parametrize("when", ["before", "between", "result"])
def test_hooks_see_gradients_as_in_dygraph(when: str) -> None:
    found = []
    for enabled in (True, False):
        seen: list[Any] = []

        def doubled(gradient: Any, seen: list[Any] = seen) -> Any:
            seen.append(gradient.numpy().copy())
            return gradient * 2.0

        dygraph.ProgramTranslator().enable(enabled)
        with dygraph.guard():
            loop = Loop(4)
            for number in range(9):
                weight = loop.net.second.weight
                if when == "before" and number == 5:
                    weight.register_hook(doubled)
                loss = loop.net(*loop.feed(4))[0]
                if when == "between" and number == 5:
                    weight.register_hook(doubled)
                if when == "result":
                    loss.register_hook(doubled)
                loss.backward()
                loop.optimizer.minimize(loss)
                loop.net.clear_gradients()
            found.append([*seen, *(one.numpy() for one in loop.net.parameters())])
    dygraph.ProgramTranslator().enable(True)
    assert len(found[0]) == len(found[1]) > len(loop.net.parameters()) + 3
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=2e-5)


class Computed(dygraph.ExponentialDecay):
    """A user's schedule, which computes with variables."""

    def step(self) -> Any:
        return layers.scale(super().step(), 1.5)


@pytest.mark.parametrize("kind", [fluid.optimizer.SGD, fluid.optimizer.Adagrad])
def test_schedules_that_run_operators_lose_no_update(kind: Any) -> None:
    found = []
    for enabled in (True, False):
        dygraph.ProgramTranslator().enable(enabled)
        with dygraph.guard():
            loop = Loop(4)
            optimizer = kind(Computed(0.1, 3, 0.8), parameter_list=loop.net.parameters())
            for _ in range(9):
                loss = loop.net(*loop.feed(4))[0]
                loss.backward()
                pairs = optimizer.minimize(loss)[1]
                loop.net.clear_gradients()
            assert len(pairs) > 2
            found.append([one.numpy() for one in loop.net.parameters()])
    dygraph.ProgramTranslator().enable(True)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=2e-5)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []
    for name in ("run_whole", "happen"):
        former = getattr(whole.WaitingCall, name)

        def note(self: Any, former: Any = former, name: str = name) -> Any:
            done.append(name)
            return former(self)

        monkeypatch.setattr(whole.WaitingCall, name, note)
    return done


def test_steps_by_the_book_are_whole_from_the_fourth_on(monkeypatch: pytest.MonkeyPatch) -> None:
    done = counted(monkeypatch)
    trained(3, 0.0, whole_steps=True)
    assert done == ["run_whole"] * len(done)
    assert len(done) >= STEPS // 2
    done.clear()
    trained(3, 0.0, whole_steps=False)
    assert not done


def test_who_always_looks_is_not_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    done = counted(monkeypatch)
    with dygraph.guard():
        loop = Loop(1)
        for _ in range(12):
            loss = loop.net(*loop.feed(4))[0]
            loss.backward()
            loop.optimizer.minimize(loss)
            loop.gradients()
            loop.net.clear_gradients()
    assert done == ["happen"] * 3


def test_leaving_dygraph_does_what_waits() -> None:
    with dygraph.guard():
        loop = Loop(2)
        for _ in range(6):
            one_step(loop, 0.0)
        before = [one.numpy() for one in loop.net.parameters()]
        loss = loop.net(*loop.feed(4))[0]
        assert waiting.now is not None
        loss.backward()
        loop.optimizer.minimize(loss)
    assert waiting.now is None
    assert type(loss).__name__ == "VarBase"
    after = [one.held.detach().numpy() for one in loop.net.parameters()]
    assert any(np.abs(one - two).max() > 0 for one, two in zip(before, after, strict=True))


def test_a_second_backward_is_refused_as_ever() -> None:
    with dygraph.guard():
        loop = Loop(2)
        for _ in range(6):
            loss = loop.net(*loop.feed(4))[0]
            loss.backward()
            loop.optimizer.minimize(loss)
            loop.net.clear_gradients()
        with pytest.raises(fluid.core.EnforceNotMet, match="a second time"):
            loss.backward()


def test_an_array_may_be_overwritten_once_the_function_was_called() -> None:
    found = []
    for whole_steps in (True, False):
        with flags.override({FLAG: whole_steps}), dygraph.guard():
            loop = Loop(2)
            for _ in range(6):
                one_step(loop, 0.0)
            loss = loop.net(*loop.feed(4))[0]
            assert (waiting.now is not None) == whole_steps
            loop.change_feed()
            loss.backward()
            loop.optimizer.minimize(loss)
            loop.net.clear_gradients()
            found.append([loss.numpy(), *(one.numpy() for one in loop.net.parameters())])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=2e-5)

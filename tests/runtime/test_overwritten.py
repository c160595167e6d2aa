"""Results that are computed over an input: as beside it, to the bit, whoever else reads that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.runtime.memory import Memory
from refluid.runtime.plan import Plan
from refluid.runtime.request import Request

CPU = torch.device("cpu")
layers = fluid.layers
ROWS, WIDTH = 3, 4
SHAPES = [[ROWS, WIDTH], [1, WIDTH], [ROWS, 1], [WIDTH], [1]]
Draw = Callable[[np.random.Generator], list[Any]]


def expressions(draws: np.random.Generator) -> list[Any]:
    """Sums and products, also broadcast and by another name, of which some are written again."""
    fed = [fluid.data(f"x{n}", shape) for n, shape in enumerate(SHAPES)]
    known = [layers.scale(one, 1.0 + n) for n, one in enumerate(fed)]
    made = list(known)
    for _ in range(int(draws.integers(2, 9))):
        one, other = (known[n] for n in draws.integers(0, len(known), 2))
        kind = draws.choice(["add", "mul", "view", "again", "twice"])
        if kind == "view":
            found = layers.reshape(one, list(one.shape))
        elif kind in ("again", "twice"):
            alike = [var for var in known if var.shape == one.shape]
            terms = [one, one if kind == "twice" else alike[int(draws.integers(len(alike)))]]
            layers.sums([*terms, alike[0]], out=one)
            continue
        else:
            large = other if np.prod(other.shape) > np.prod(one.shape) else one
            call = layers.elementwise_add if kind == "add" else layers.elementwise_mul
            found = call(large, other if large is one else one)
        known.append(found)
        made.append(found)
    return [var for var in made if draws.random() < 0.3] or made[-1:]


def training(draws: np.random.Generator) -> list[Any]:
    """An optimizer whose gradients are clipped and have weights added, or are fetched."""
    net = fluid.data("x0", [ROWS, WIDTH])
    for _ in range(int(draws.integers(1, 3))):
        net = layers.fc(net, WIDTH, act=str(draws.choice(["tanh", "relu"])))
    weight = layers.create_parameter([ROWS, WIDTH], "float32")
    tied = layers.create_parameter([ROWS, WIDTH], "float32")
    loss = layers.reduce_sum(layers.square(net + (weight + tied)))
    clips: list[Any] = [
        None,
        fluid.clip.GradientClipByGlobalNorm(0.1),
        fluid.clip.GradientClipByNorm(0.1),
        fluid.clip.GradientClipByValue(0.01),
    ]
    decays = [None, fluid.regularizer.L2Decay(0.1), fluid.regularizer.L1Decay(0.1)]
    options = {
        "regularization": decays[int(draws.integers(3))],
        "grad_clip": clips[int(draws.integers(4))],
    }
    kinds: list[Callable[[], Any]] = [
        lambda: fluid.optimizer.SGD(0.1, **options),
        lambda: fluid.optimizer.Momentum(0.1, 0.9, **options),
        lambda: fluid.optimizer.Adam(0.1, **options),
    ]
    _, pairs = kinds[int(draws.integers(3))]().minimize(loss)
    gradients = [f"{param.name}@GRAD" for param, _ in pairs] + [grad.name for _, grad in pairs]
    parameters = [param.name for param, _ in pairs]
    return [loss, *parameters, *(one for one in gradients if draws.random() < 0.15)]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("draw", [expressions, training])
def test_over_an_input_and_beside_it(draw: Draw, seed: int) -> None:
    draws = np.random.default_rng(seed)
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = seed + 1
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        fetched = draw(draws)
    names = [name for name in (f"x{n}" for n in range(5)) if main.global_block().has_var(name)]
    feeds = [
        {name: draws.normal(0, 1, SHAPES[int(name[1])]).astype("float32") for name in names}
        for _ in range(8)
    ]
    found = []
    for in_place in (True, False):
        build = fluid.BuildStrategy()
        build.enable_inplace = in_place
        program = fluid.CompiledProgram(main, build_strategy=build)
        executor, scope = fluid.Executor(), fluid.Scope()
        executor.run(startup, scope=scope)
        found.append([executor.run(program, one, fetched, scope=scope) for one in feeds])
    for over, beside in zip(*found, strict=True):
        for one, other in zip(over, beside, strict=True):
            np.testing.assert_array_equal(one, other)


def _text(main: fluid.Program, *fetched: str) -> str:
    request = Request(main.global_block(), ("x",), fetched, CPU, memory=Memory())
    return str(Plan(request).text)


@pytest.mark.parametrize("fetches", [False, True])
def test_gradients_are_scaled_over_themselves(fetches: bool) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        loss = layers.mean(layers.fc(fluid.data("x", [None, 4]), 3, bias_attr=False))
        clip = fluid.clip.GradientClipByGlobalNorm(1.0)
        _, ((_, gradient),) = fluid.optimizer.SGD(0.1, grad_clip=clip).minimize(loss)
    text = _text(main, loss.name, *([gradient.name] if fetches else []))
    assert ("elementwise_mul_(" in text) is not fetches

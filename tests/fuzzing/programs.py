"""Random small programs: drawn as a `Spec`, which says all, and built from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from refluid import fluid
from refluid.core.values import LoDTensor
from refluid.fluid.lod_tensor import create_lod_tensor
from tests.fuzzing import values
from tests.fuzzing.sizes import Sizes, sequence
from tests.fuzzing.table import Net, Unsuited, rows
from tests.fuzzing.training import minimize

FREE = None
L = fluid.layers


@dataclass(frozen=True)
class Kind:
    """What is fed: a shape with free dimensions, or ids to look up; how large they get."""

    name: str
    shape: tuple[int | None, ...]
    largest: int
    weight: float = 1.0
    ids: bool = False
    ragged: bool = False


KINDS: dict[str, Kind] = {
    one.name: one
    for one in (
        Kind("rows", (FREE, 4), 24, 2),
        Kind("table", (FREE, FREE), 16),
        Kind("steps", (FREE, FREE, 3), 12, 2),
        Kind("fixed steps", (4, FREE, 3), 12),
        Kind("words", (FREE, FREE), 12, 2, ids=True),
        Kind("one word", (FREE, 1), 24, 1, ids=True),
        Kind("images", (FREE, 2, FREE, FREE), 13, 3),
        Kind("square images", (FREE, 4, 6, 6), 9, 1),
        Kind("volumes", (FREE, 2, FREE, FREE, 5), 8, 0.7),
        Kind("sequences", (FREE, 3), 7, 0.7, ragged=True),
    )
}


@dataclass(frozen=True)
class Step:
    """One run: sizes of the free dimensions, what numbers, and how they lie in memory."""

    sizes: Sizes
    kind: str
    layout: str
    seed: int


@dataclass(frozen=True)
class Spec:
    """A program and its runs. layers: names, each with the seed of its own choices."""

    seed: int
    kind: Kind
    layers: tuple[tuple[str, int], ...]
    trains: bool
    steps: tuple[Step, ...]


@dataclass
class Built:
    """A program that can be run; `skipped` are the layers that could not be built."""

    main: Any
    startup: Any
    fetches: list[str]
    loss: str | None
    used: list[str]
    skipped: list[str] = field(default_factory=list)


def draw_spec(seed: int, only: str = "") -> Spec:
    """The program of a seed, of one kind if `only` names it."""
    draw = Random(seed)
    row = draw.choices([*KINDS.values()], [one.weight for one in KINDS.values()])[0]
    row = KINDS.get(only, row)
    table = [one for one in rows().values() if one.ragged == row.ragged or one.name == "smooth"]
    weights = [one.weight for one in table]
    # More than are wanted: many won't suit what they follow.
    layers = [(one.name, draw.getrandbits(30)) for one in draw.choices(table, weights, k=24)]
    free = sum(size is FREE for size in row.shape)
    sizes = sequence(draw, free, row.largest)
    ordinary = 1.0 if draw.random() < 0.45 else draw.random()
    steps = [
        Step(
            one,
            values.ORDINARY if draw.random() < ordinary else draw.choice(values.EXTREME),
            draw.choice(values.LAYOUTS),
            draw.getrandbits(30),
        )
        for one in sizes
    ]
    return Spec(seed, row, tuple(layers), draw.random() < 0.65, tuple(steps))


def build(spec: Spec) -> Built:
    """The program, its startup program, and what is fetched; not trained where that can't be."""
    try:
        return _build(spec)
    except Exception as error:
        if not spec.trains:
            raise
        built = _build(replace(spec, trains=False))
        built.skipped.append(f"training: {told(error)}")
        return built


def _build(spec: Spec) -> Built:
    draw = Random(spec.seed + 1)
    most = draw.choice((1, 2, 2, 3, 3, 4, 5))
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 1 + spec.seed % 1000
    main.random_seed = draw.choice((0, startup.random_seed))
    row = spec.kind
    used: list[str] = []
    skipped: list[str] = []
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        x = _entry(row, draw)
        made = [x]
        for name, seed in spec.layers:
            if len(used) == most:
                break
            after = _apply(name, seed, x, made, skipped)
            if after is not None:
                x = after
                made.append(x)
                used.append(name)
        loss = _trained(draw, x) if spec.trains else None
    some = [one for one in made[1:] if draw.random() < 0.25]
    fetched = list(dict.fromkeys(one.name for one in [x, *some, *([loss] if loss else [])]))
    gradients = [p.name + "@GRAD" for p in main.all_parameters() if draw.random() < 0.3]
    fetched += [name for name in gradients if loss and main.global_block().has_var(name)]
    return Built(main, startup, fetched, loss.name if loss else None, used, skipped)


def _entry(row: Kind, draw: Random) -> Any:
    shape = [-1 if size is FREE else size for size in row.shape]
    if not row.ids:
        x = fluid.data("x", shape, "float32", 1 if row.ragged else 0)
        x.stop_gradient = draw.random() < 0.5
        return x
    words = fluid.data("x", shape, "int64")
    sparse = draw.random() < 0.5
    padding = draw.choice((None, None, 0, 3))
    return fluid.embedding(words, [20, 4], sparse, padding_idx=padding)


def _apply(name: str, seed: int, x: Any, made: list[Any], skipped: list[str]) -> Any:
    row = rows()[name]
    if len(x.shape) not in row.ranks or (row.ragged and not x.lod_level):
        return None
    program = fluid.default_main_program()
    count = len(program.global_block().ops)
    try:
        with fluid.program_guard(program, fluid.default_startup_program()):
            after = row.make(Net(Random(seed), made), x)
    except Unsuited:
        after = None
    except Exception as error:
        skipped.append(f"{name}: {told(error)}")
        after = None
    if after is None:
        block = program.global_block()
        while len(block.ops) > count:
            block._remove_op(len(block.ops) - 1)
        program.current_block_idx = 0
    return after


def told(error: Exception) -> str:
    """Its type and the start of its message."""
    return f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"


def _trained(draw: Random, x: Any) -> Any:
    """The mean of the squares, or of x, as a loss that is minimized where x can be."""
    net = x
    if len(x.shape) >= 2 and x.shape[-1] > 0 and draw.random() < 0.5:
        net = L.fc(x, 2, num_flatten_dims=len(x.shape) - 1)
    loss = L.mean(L.square(net)) if draw.random() < 0.7 else L.mean(net)
    if fluid.default_main_program().all_parameters() and not loss.stop_gradient:
        minimize(draw, loss)
        return loss
    return None


def feed_of(spec: Spec, step: Step) -> dict[str, Any]:
    """What is fed in a step."""
    row = spec.kind
    left = list(step.sizes)
    shape = tuple(left.pop(0) if size is FREE else size for size in row.shape)
    if row.ragged:
        lengths = [1 + number % 4 for number in _numbers(step.seed, shape[0])]
        array = values.floats(step.kind, (sum(lengths), *shape[1:]), step.seed)
        return {"x": _with_sequences(array, lengths)}
    if row.ids:
        return {"x": values.laid_out(values.whole(step.kind, shape, 20, step.seed), step.layout)}
    return {"x": values.laid_out(values.floats(step.kind, shape, step.seed), step.layout)}


def _numbers(seed: int, count: int) -> Sequence[int]:
    return [int(one) for one in np.random.RandomState(seed).randint(0, 100, count)]


def _with_sequences(array: Any, lengths: list[int]) -> LoDTensor:
    return create_lod_tensor(array, [lengths], fluid.CPUPlace())

"""What random programs have found: each as small as it gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from tests.fuzzing.judging import differences
from tests.fuzzing.programs import Built, Kind, Spec, Step
from tests.fuzzing.running import Way, initial, run
from tests.fuzzing.ways import ORACLE, TIER

L = fluid.layers
Network = Callable[[Any], Any]


def _differences(
    shape: Sequence[int | None], network: Network, sizes: Sequence[Sequence[int]], tier: str
) -> list[str]:
    """Of a tier to the interpreted one, for a network run, and trained, on x in these sizes."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        x = fluid.data("x", [-1 if one is None else one for one in shape], "float32")
        x.stop_gradient = False
        y = network(x)
        loss = L.mean(y)
        if any(one.trainable for one in main.all_parameters()):
            fluid.optimizer.SGD(0.1).minimize(loss)
    built = Built(main, startup, [y.name, loss.name], loss.name, [])
    steps = [Step(tuple(one), "normal", "plain", seed) for seed, one in enumerate(sizes)]
    spec = Spec(0, Kind("x", tuple(shape), 0), (), True, tuple(steps))
    start = initial(built)
    ways = ORACLE, Way(tier, {TIER: tier})
    oracle, found = (run(spec, built, start, way) for way in ways)
    return list(differences(oracle, found))


def _rows_by_value(x: Any) -> Any:
    """The mean's gradient has a row for each number above 0."""
    places = L.cast(L.where(L.greater_than(x, x * 0.0)), "float32")
    weight = L.create_parameter([2], "float32")
    return L.reduce_sum(L.elementwise_add(places, weight, axis=1), [0, 1], keep_dim=True)


def _loop_of_no_rounds(x: Any) -> Any:
    def body(place: Any, value: Any) -> Any:
        return [L.increment(place, 1, in_place=False), L.tanh(value)]

    count, rounds = (L.fill_constant([1], "int64", 0) for _ in range(2))
    return L.while_loop(lambda place, _: L.less_than(place, rounds), body, [count, L.fc(x, 2)])[1]


def _lstm(x: Any) -> Any:
    start = L.fill_constant_batch_size_like(x, [1, -1, 4], "float32", 0.0, 1, 1)
    return L.lstm(x, start, start, 20, 4, 1)[0]


def _strided(x: Any) -> Any:
    return L.strided_slice(x, [1], [1000], [-1000], [-2])


def _padded_convolution(x: Any) -> Any:
    return L.conv2d(
        x, 2, 3, 2, "SAME", bias_attr=False, param_attr=fluid.ParamAttr(trainable=False)
    )


def _pooled(x: Any) -> Any:
    return L.pool2d(x, 2, "max", 2, "SAME")


def _constant(x: Any) -> Any:
    """The sum may take the constant's memory."""
    return L.elementwise_add(L.assign(np.ones((2, 2), "float32")), x)


EVENS = [(size, size) for size in range(4, 25, 2)] * 2
ODD = (11, 11), (17, 17)
ONES = (3, 9), (1, 7), (1, 4), (1, 1), (1, 5), (1, 3), (2, 1), (12, 1), (9, 1)
FOUND: dict[str, tuple[Network, Sequence[int | None], Sequence[Sequence[int]]]] = {
    "shapes that depend on values": (_rows_by_value, (8, 4), [()] * 7),
    "a loop of no rounds": (_loop_of_no_rounds, (None, 4), [(3,)] * 7),
    "a kernel that asks whether gradients are wanted": (_lstm, (5, 2, 3), [()] * 7),
    "what is left of a slice": (_strided, (None, None), [*EVENS, *ODD]),
    "padding by the remainder": (_padded_convolution, (2, 1, None, None), [*EVENS, *ODD]),
    "pooling by the remainder": (_pooled, (2, 1, None, None), [*EVENS, *ODD]),
    "a constant that is overwritten": (_constant, (2, 2), [()] * 7),
    "sizes of one alone": (lambda x: L.pad(x, [1, 2, 0, 0]), (None, None), ONES),
}


@pytest.mark.parametrize("tier", ["recorded", "auto"])
@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_stays_mended(name: str, tier: str) -> None:
    network, shape, sizes = FOUND[name]
    assert not _differences(shape, network, sizes, tier)

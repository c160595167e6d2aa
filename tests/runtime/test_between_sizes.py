"""Operators that decide by remainders, comparisons and rounding: no size is served by another's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.runtime.recorded import table as tables

layers = fluid.layers


def _strided(x: Any) -> Any:
    return layers.strided_slice(x, [1, 2], [1000, 0], [-1000, 1000], [-2, 3])


def _same_convolution(x: Any) -> Any:
    return layers.conv2d(layers.unsqueeze(x, [1]), 2, 3, stride=2, padding="SAME")


def _same_depthwise(x: Any) -> Any:
    net = layers.expand(layers.unsqueeze(x, [1]), [1, 2, 1, 1])
    return layers.conv2d(net, 2, 3, stride=3, padding="SAME", groups=2)


def _same_volume(x: Any) -> Any:
    return layers.conv3d(layers.unsqueeze(x, [1, 2]), 2, 3, stride=2, padding="SAME")


def _same_pool(x: Any) -> Any:
    return layers.pool2d(layers.unsqueeze(x, [1]), 3, "avg", 2, "SAME", exclusive=False)


def _same_transposed(x: Any) -> Any:
    net = layers.unsqueeze(x, [1])
    return layers.conv2d_transpose(net, 2, filter_size=3, stride=2, padding="SAME")


def _padded(x: Any) -> Any:
    return layers.pad(layers.square(x), [0, 0, 1, 2, 0, 3])


def _cropped(x: Any) -> Any:
    return layers.slice(x, [1, 2], [-7, 0], [1000, -1])


def _resized(x: Any) -> Any:
    return layers.resize_bilinear(layers.unsqueeze(x, [1]), scale=1.5)


def _adaptive(x: Any) -> Any:
    return layers.adaptive_pool2d(layers.unsqueeze(x, [1]), [2, 3], "avg")


CHOOSY = [
    _strided,
    _same_convolution,
    _same_depthwise,
    _same_volume,
    _same_pool,
    _same_transposed,
    _padded,
    _cropped,
    _resized,
    _adaptive,
]
ORDERS: dict[str, Callable[[list[int]], list[int]]] = {
    "even first": lambda sizes: sorted(sizes, key=lambda size: (size % 2, size)),
    "ends first": lambda sizes: sorted(sizes, key=lambda size: -abs(size - 12)),
    "falling": lambda sizes: sorted(sizes, reverse=True),
    "any": lambda sizes: list(np.random.RandomState(5).permutation(sizes)),
}


def _images(operator: Callable[[Any], Any], tier: str, sizes: list[int]) -> list[bytes]:
    """Result and gradient of the input for images of these heights."""
    with (
        flags.override({"FLAGS_refluid_tier": tier}),
        fluid.unique_name.guard(),
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.scope_guard(fluid.Scope()),
    ):
        fluid.default_startup_program().random_seed = 3
        x = fluid.data("x", [None, None, None])
        x.stop_gradient = False
        net = operator(layers.scale(x, 1.5))
        fetches = [net, *fluid.gradients([layers.reduce_sum(layers.square(net))], [x])]
        executor = fluid.Executor()
        executor.run(fluid.default_startup_program())
        random = np.random.RandomState(0)
        found = []
        for size in sizes:
            image = random.rand(2, size, 25 - size).astype("float32")
            one, gradient = executor.run(feed={"x": image}, fetch_list=fetches)
            assert gradient.shape == image.shape
            found.append(repr(one.shape).encode() + one.tobytes() + gradient.tobytes())
    return found


@pytest.mark.parametrize(
    "order",
    [
        "any",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ("even first", "ends first", "falling")
        ),
    ],
)
@pytest.mark.parametrize("operator", CHOOSY)
def test_sizes_between_others(operator: Callable[[Any], Any], order: str) -> None:
    sizes = ORDERS[order]([*range(2, 24, 1 if order == "any" else 2), 3, 11, 17]) * 5
    expected = _images(operator, "interpreted", sizes)
    for tier in ("auto", "recorded"):
        assert _images(operator, tier, sizes) == expected


def test_the_comparison_finds_a_number_that_is_kept_for_all_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = ORDERS["even first"]([*range(2, 24)]) * 2
    expected = _images(_strided, "interpreted", sizes)
    assert _images(_strided, "recorded", sizes) == expected
    monkeypatch.setattr(tables, "_identical", lambda one, other: type(one) is type(other))
    try:
        found = _images(_strided, "recorded", sizes)
    except Exception:
        return
    assert found != expected

"""One recording for feeds of all sizes: bit for bit what the operators compute, and where not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.runtime.recorded.record import Refused
from refluid.runtime.recorded.sizes import Sizes

layers = fluid.layers


@pytest.fixture(autouse=True)
def _flags() -> Iterator[None]:
    yield
    fluid.set_flags({"FLAGS_refluid_tier": "auto"})


def _attention() -> tuple[Any, Any]:
    words = fluid.data("words", [None, None], "int64")
    net = fluid.embedding(words, [50, 8])
    query, key = (layers.fc(net, 8, num_flatten_dims=2) for _ in range(2))
    scores = layers.matmul(query, key, transpose_y=True, alpha=0.25)
    net = layers.layer_norm(layers.matmul(layers.softmax(scores), net), begin_norm_axis=2)
    return layers.reduce_mean(net, 1), words


def _shifted() -> tuple[Any, Any]:
    words = fluid.data("words", [None, None], "int64")
    net = layers.reshape(fluid.embedding(words, [50, 8]), [-1, 8])
    net = layers.fc(net, 8, act="relu")
    net = layers.pad(net, [1, 2, 0, 0])
    return layers.reduce_sum(net, 0, keep_dim=True), words


def _dropped() -> tuple[Any, Any]:
    words = fluid.data("words", [None, None], "int64")
    net = layers.dropout(fluid.embedding(words, [50, 8]), 0.5, seed=3)
    return layers.reduce_max(net, 1), words


def _halved() -> tuple[Any, Any]:
    words = fluid.data("words", [None, None], "int64")
    net = layers.unsqueeze(fluid.embedding(words, [50, 8]), [1])
    return layers.reduce_max(layers.pool2d(net, [2, 1], "max", [2, 1]), [1, 2]), words


class Model:
    """Trains on words of any number of rows and any length."""

    def __init__(self, network: Callable[[], tuple[Any, Any]], tier: str = "recorded") -> None:
        fluid.set_flags({"FLAGS_refluid_tier": tier})
        self.main, startup = fluid.Program(), fluid.Program()
        self.main.random_seed = startup.random_seed = 7
        with fluid.unique_name.guard(), fluid.program_guard(self.main, startup):
            net, _ = network()
            self.loss = layers.mean(layers.square(layers.fc(net, 3)))
            fluid.optimizer.SGD(0.001).minimize(self.loss)
        self.scope, self.executor = fluid.Scope(), fluid.Executor()
        self.executor.run(startup, scope=self.scope)

    def steps(self, sizes: list[tuple[int, int]]) -> list[float]:
        """The losses of batches of these rows and lengths."""
        random = np.random.RandomState(0)
        feeds = [{"words": random.randint(0, 50, size)} for size in sizes]
        run = self.executor.run
        return [run(self.main, one, [self.loss], scope=self.scope)[0].item() for one in feeds]


def _sizes(count: int, seed: int = 1) -> list[tuple[int, int]]:
    random = np.random.RandomState(seed)
    return [(random.randint(2, 9), random.randint(2, 40)) for _ in range(count)]


@pytest.mark.parametrize("network", [_attention, _shifted, _dropped])
def test_steps_of_all_sizes(network: Any, caplog: pytest.LogCaptureFixture) -> None:
    sizes = _sizes(24)
    expected = Model(network, "interpreted").steps(sizes)
    model = Model(network)
    with caplog.at_level(logging.INFO, logger="refluid"):
        assert model.steps(sizes) == expected
    made = [line for line in caplog.messages if "for all feeds of shapes" in line]
    assert made
    caplog.clear()
    # What lies between the sizes of samples is recorded no more.
    between = [(5, length) for length in range(10, 30)]
    with caplog.at_level(logging.INFO, logger="refluid"):
        model.steps(between)
    assert not caplog.messages or network is _dropped


def _choosing() -> tuple[Any, Any]:
    """The product of long sentences is large enough for another kernel where there is one."""
    words = fluid.data("words", [None, None], "int64")
    net = layers.fc(fluid.embedding(words, [50, 64]), 64, num_flatten_dims=2, act="relu")
    return layers.reduce_mean(net, 1), words


def test_where_code_chooses_by_sizes_each_choice_has_a_recording() -> None:
    random = np.random.RandomState(1)
    sizes = [(8, random.choice([random.randint(2, 20), random.randint(60, 90)])) for _ in range(50)]
    expected = Model(_choosing, "interpreted").steps(sizes)
    model = Model(_choosing, "auto")
    assert model.steps(sizes) == expected


def test_a_size_of_one_is_its_own_case() -> None:
    sizes = [*_sizes(16), (1, 7), (6, 1), (1, 1), *_sizes(10, 2), (1, 9)]
    expected = Model(_attention, "interpreted").steps(sizes)
    assert Model(_attention).steps(sizes) == expected


def test_what_follows_in_no_simple_way_stays_interpreted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sizes = _sizes(40)
    expected = Model(_halved, "interpreted").steps(sizes)
    with caplog.at_level(logging.INFO, logger="refluid"):
        assert Model(_halved, "auto").steps(sizes) == expected
    first, second = caplog.messages
    assert first.startswith("every size is recorded on its own: ")
    assert second == "a plan stays interpreted: its shapes change too often"


def test_sizes_that_grow_are_recorded_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    sizes = [(4, length) for length in range(2, 62)]
    expected = Model(_attention, "interpreted").steps(sizes)
    with caplog.at_level(logging.INFO, logger="refluid"):
        assert Model(_attention, "auto").steps(sizes) == expected
    assert 5 < sum("for all feeds of shapes" in line for line in caplog.messages) < 12


def test_a_few_shapes_have_recordings_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="refluid"):
        Model(_attention).steps([(4, 5), (4, 6), (4, 7)] * 4)
    assert sum("for feeds of shapes [[" in line for line in caplog.messages) == 3
    assert not any("for all feeds" in line for line in caplog.messages)


SHAPES = [[(n, m), (n, 1), (m + 1,), (7,)] for n, m in [(2, 3), (5, 9), (4, 20), (8, 6), (3, 11)]]


def test_free_and_tied_sizes() -> None:
    sizes = Sizes(SHAPES)
    assert sizes.lines == ["n0 = F[0].shape[0]", "n1 = F[0].shape[1]"]
    assert str(sizes) == "[2 to 8, 3 to 20], [2 to 8, 1], [4 to 21], [7]"
    for guarded, n, m, tied, fixed in [
        (True, 5, 9, 10, 7),
        (True, 6, 15, 16, 7),
        (False, 9, 9, 10, 7),
        (False, 5, 2, 3, 7),
        (False, 5, 9, 11, 7),
        (False, 5, 9, 10, 8),
    ]:
        feeds = [np.empty((n, m)), np.empty((n, 1)), np.empty(tied), np.empty(fixed)]
        assert eval(sizes.guard, {"F": feeds, "n0": n, "n1": m}) is guarded


@pytest.mark.parametrize(
    "number",
    [
        lambda n, m: n * m,
        lambda n, m: 3 * m - 2,
        lambda n, m: 8 * n * m * m + 5,
        lambda n, m: 1 / (n * m),
        lambda n, m: 4 / m,
        lambda n, m: float(n),
    ],
)
def test_numbers_that_follow(number: Callable[[int, int], float]) -> None:
    text = Sizes(SHAPES).follow([number(*one[0]) for one in SHAPES]).text
    found = eval(text, {"n0": 6, "n1": 13})
    assert found == number(6, 13)
    assert type(found) is type(number(6, 13))


@pytest.mark.parametrize("number", [lambda n, m: n // 2, lambda n, m: 2.0**-n, lambda n, m: n**4])
def test_numbers_that_do_not(number: Callable[[int, int], float]) -> None:
    with pytest.raises(Refused, match="in no simple way"):
        Sizes(SHAPES).follow([number(*one[0]) for one in SHAPES])

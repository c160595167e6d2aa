"""What Python decides of several tensors at once in a declarative function."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from tests.started import run

dygraph, layers = fluid.dygraph, fluid.layers


@pytest.fixture(autouse=True)
def _translator() -> Iterator[None]:
    yield
    dygraph.ProgramTranslator().reset()


def _largest(x: Any, y: Any) -> Any:
    return max(x, y) * 10 + max(2, y)


def _smallest(x: Any, y: Any) -> Any:
    return min([y, x, 4.5]) * 10 + min(y, 2) + x


def _by_key(x: Any, y: Any) -> Any:
    first = max([(x, y), (y, x)], key=lambda pair: pair[1])
    return first[0] + 10 * min(x, y, key=lambda value: -value)


def _no_tensors(x: Any, y: Any) -> Any:
    return x * max(1, 2) + y * max([], default=3) * len(min("ab", "abc", key=len))


def _any(x: Any, y: Any) -> Any:
    if any([x > 5, y > 5]):
        return x
    return y if any(value is None or value > 2 for value in [None, x]) else x + y


def _all(x: Any, y: Any) -> Any:
    if all([x > 0, y > 2]):
        return x
    return y if all(value is not None and value > 0 for value in [y, x]) else x + y


def _in_a_loop(x: Any, y: Any) -> Any:
    best = y
    for number in range(layers.cast(x, "int64")):
        best = max(best, y * number)
    return best


def _added(x: Any, y: Any) -> Any:
    found = []
    for number in range(layers.cast(x, "int64") + 2):
        found.append(y * number)
    return sum(found) + layers.sums(found) * 10 + sum([x, y])


NUMBERS = [(3.0, 1.0), (1.0, 3.0), (2.0, 2.0), (6.0, 5.5)]


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize(
    "function",
    [_largest, _smallest, _by_key, _no_tensors, _any, _all, _in_a_loop, _added],
)
def test_folds(function: Any, numbers: tuple[float, float]) -> None:
    def values(called: Any) -> list[Any]:
        with dygraph.guard():
            given = [dygraph.to_variable(np.array([one], "float32")) for one in numbers]
            for one in given:
                one.stop_gradient = False
            found = called(*given)
            found.backward()
            gradients = [one.gradient() for one in given]
            return [found.numpy(), *(np.zeros(1) if one is None else one for one in gradients)]

    for one, other in zip(values(dygraph.declarative(function)), values(function), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def _filtered(x: Any) -> Any:
    found = [one for one in (x, x + 1) if one > 2]
    return found[0]


def _member(x: Any) -> Any:
    return x if x in [x + 1, x + 2] else x * 2


def _sorted(x: Any) -> Any:
    return sorted([x + 1, x])[0]


def _same_list(x: Any) -> Any:
    return x if [x] == [x + 1] else x * 2


@pytest.mark.parametrize("function", [_filtered, _member, _sorted, _same_list])
def test_what_python_alone_can_ask_is_refused(function: Any) -> None:
    with dygraph.guard(), pytest.raises(TypeError, match="known only when the program") as raised:
        dygraph.declarative(function)(np.ones([1], "float32"))
    assert Path(__file__) in [Path(str(entry.path)) for entry in raised.traceback]


def test_variables_of_programs_are_there() -> None:
    with fluid.program_guard(fluid.Program()):
        assert layers.fill_constant([1], "float32", 0.0)


def test_layers_take_a_variable_for_one_that_is_there() -> None:
    """As in a program: `accuracy` asks whether it is given something to count in."""

    @dygraph.declarative
    def right(scores: Any, labels: Any) -> Any:
        total = layers.create_tensor("int64")
        return layers.accuracy(scores, labels, total=total), total

    with dygraph.guard():
        scores, labels = np.eye(4, dtype="float32"), np.array([[0], [1], [2], [0]])
        found, total = right(scores, labels)
        assert float(found) == 0.75 and int(total) == 4


LISTS = """
import refluid.paddle
refluid.paddle.install()
import paddle.fluid as fluid
import numpy as np

@fluid.dygraph.declarative
def rows(x, count):
    found = []
    for number in range(count):
        found.append(x * number)
    joined, stacked = fluid.layers.concat(found, 0), fluid.layers.stack(found)
    return fluid.layers.reduce_sum(joined) + fluid.layers.reduce_sum(stacked)

with fluid.dygraph.guard():
    given = np.ones([2], "float32"), np.array([3], "int64")
    print(rows(*map(fluid.dygraph.to_variable, given)).numpy())
"""


def test_lists_are_joined_whichever_module_was_imported_first(tmp_path: Path) -> None:
    """Layers are given names in their errors as `fluid.layers` is imported, by other functions."""
    (tmp_path / "train.py").write_text(LISTS)
    ended = run(str(tmp_path / "train.py"))
    assert ended.stdout.split() == ["[12.]"], ended.stderr

"""Layers refuse what can't be built, in words that name layer, argument and value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.ir import overloads

L = fluid.layers


@pytest.fixture(autouse=True)
def _programs() -> Iterator[None]:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield


def _image() -> fluid.Variable:
    return fluid.data("image", [None, 6, 8, 8])


def _plain() -> fluid.Variable:
    return fluid.data("x", [None, 4])


def _case_outside() -> None:
    L.Switch().case(L.fill_constant([1], "bool", True))


def _default_first() -> None:
    with L.Switch() as switch:
        switch.default()


def _case_of_floats() -> None:
    with L.Switch() as switch:
        switch.case(L.fill_constant([1], "float32", 1.0))


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "number for a variable": (lambda: L.relu(3), TypeError, "'X' in relu must be Variable"),
    "unknown row": (lambda: L.fc(fluid.data("s", [None, None]), 3), ValueError, "known"),
    "two inputs, three attributes": (
        lambda: L.fc([_plain(), _plain()], 3, param_attr=["a", "b", "c"]),
        ValueError,
        "2 inputs but 3",
    ),
    "size as text": (lambda: L.fc(_plain(), "3"), TypeError, "no text"),
    "attribute as text": (lambda: L.dropout(_plain(), "0.5"), TypeError, "'0.5' is no FLOAT"),
    "no groups": (lambda: L.conv2d(_image(), 4, 3, groups=0), ValueError, "greater than 0"),
    "corners": (
        lambda: L.resize_bilinear(_image(), [2, 2], align_corners=1),
        TypeError,
        "align_corners",
    ),
    "alignment": (lambda: L.resize_bilinear(_image(), [2, 2], align_mode=3), ValueError, "0 or 1"),
    "groups": (lambda: L.conv2d(_image(), 4, 3, groups=4), ValueError, "groups=4 must divide"),
    "layout": (lambda: L.conv2d(_image(), 4, 3, data_format="CHW"), ValueError, "data_format"),
    "half of a size": (lambda: L.conv2d(_image(), 4, 3, padding=1.0), TypeError, "padding .* 1.0"),
    "half a window": (lambda: L.pool2d(_image(), 2.0), TypeError, "pool_size .* not 2.0"),
    "half of a window": (lambda: L.im2sequence(_image(), 2, 1.0), TypeError, "stride .* not 1.0"),
    "half of a border": (lambda: L.unfold(_image(), 3, 1, 1.0), TypeError, "paddings .* not 1.0"),
    "half of a layer": (lambda: fluid.dygraph.Conv2D(1, 4, 3, padding=1.0), TypeError, "a // b"),
    "padding word": (lambda: L.conv2d(_image(), 4, 3, padding="ALL"), ValueError, "SAME"),
    "padded batch": (
        lambda: L.conv2d(_image(), 4, 3, padding=[[1, 1], [0, 0], [1, 1], [1, 1]]),
        ValueError,
        "batch and channel",
    ),
    "matrix to convolve": (lambda: L.conv2d(_plain(), 4, 3), ValueError, "4 dimensions"),
    "no filter": (lambda: L.conv2d_transpose(_image(), 4), ValueError, "filter_size"),
    "pool type": (lambda: L.pool2d(_image(), 2, "mean"), ValueError, "pool_type"),
    "pool size": (lambda: L.pool2d(_image()), ValueError, "pool_size"),
    "index of a mean": (
        lambda: L.adaptive_pool2d(_image(), 2, "avg", require_index=True),
        ValueError,
        "only 'max'",
    ),
    "two unknown sizes": (lambda: L.reshape(_plain(), [-1, -1]), ValueError, "only one"),
    "copied size": (lambda: L.reshape(_plain(), [4, -1, 0]), ValueError, "has 2 dimensions"),
    "shape": (lambda: L.reshape(_plain(), 4), TypeError, "list"),
    "permutation": (lambda: L.transpose(_plain(), [0, 2]), ValueError, "perm"),
    "reversed nowhere": (lambda: L.reverse(_plain(), []), EnforceNotMet, "axis' .* not empty"),
    "uneven split": (lambda: L.split(_image(), 4, dim=1), ValueError, "4 equal parts"),
    "unknown unstack": (lambda: L.unstack(_plain(), axis=0), ValueError, "give num"),
    "flatten": (lambda: L.flatten(_plain(), axis=3), ValueError, "axis 3"),
    "padding row": (
        lambda: L.embedding(fluid.data("i", [None, 1], "int64"), [5, 2], padding_idx=5),
        ValueError,
        "outside a table of 5",
    ),
    "ids without 1": (
        lambda: L.embedding(fluid.data("i", [None, 3], "int64"), [5, 2]),
        EnforceNotMet,
        "end in \\[3\\]: .* fluid.embedding",
    ),
    "labels without 1": (
        lambda: L.one_hot(fluid.data("i", [None, 2, 3], "int64"), 5),
        EnforceNotMet,
        "end in \\[3\\]: .* fluid.one_hot",
    ),
    "smoothing": (lambda: L.label_smooth(_plain(), epsilon=2.0), ValueError, "between 0 and 1"),
    "activation": (lambda: L.fc(_plain(), 3, act=5), TypeError, "no activation"),
    "case outside": (_case_outside, ValueError, "inside with"),
    "default first": (_default_first, ValueError, "at least one condition"),
    "case of floats": (_case_of_floats, TypeError, "not bool"),
    "assign": (lambda: L.assign([1.0]), TypeError, "numpy array"),
    "attention": (
        lambda: fluid.nets.scaled_dot_product_attention(_plain(), _plain(), _plain()),
        ValueError,
        "3 dimensions",
    ),
    "data": (lambda: fluid.data("d", 4), TypeError, "shape"),
    "missing layer": (lambda: L.no_such_layer, AttributeError, "does not have fluid.layers.no_"),
    "missing module": (lambda: fluid.no_such_thing, AttributeError, "does not have fluid.no_"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused(case: str) -> None:
    build, kind, words = WRONG[case]
    with pytest.raises(kind, match=words):
        build()


def test_padding_in_every_spelling() -> None:
    def attributes(padding: Any) -> tuple[list[int], str]:
        op = L.conv2d(_image(), 4, 3, padding=padding, bias_attr=False).block.ops[-1]
        return op.attr("paddings"), op.attr("padding_algorithm")

    assert attributes(1) == ([1, 1], "EXPLICIT")
    assert attributes([1, 2]) == ([1, 2], "EXPLICIT")
    assert attributes([1, 1, 2, 2]) == ([1, 2], "EXPLICIT")
    assert attributes([0, 1, 2, 2]) == ([0, 1, 2, 2], "EXPLICIT")
    assert attributes([[0, 0], [0, 0], [1, 1], [2, 2]]) == ([1, 2], "EXPLICIT")
    assert attributes("same") == ([0, 0], "SAME")


def test_rows_of_a_variable_are_those_of_its_shape() -> None:
    first, second = fluid.data("pair", [2, 4])
    assert first.shape == second.shape == (4,)
    with pytest.raises(TypeError, match=r"how many rows 'x' has isn't known .*while_loop"):
        list(_plain())


def test_what_python_asks_of_no_variable_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overloads, "_method", lambda name: None)  # Paddle 2's aren't there
    with pytest.raises(TypeError, match="logical_not"):
        ~(_plain() > 0)

"""Python's own errors in words that name the function and what it was given."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid.functions.math import linear

L = fluid.layers


def _x(*shape: int | None, lod: int = 0) -> fluid.Variable:
    return fluid.data(f"x{len(shape)}", shape, "float32", lod_level=lod)


# What is built -> the error's type and words.
WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "an array": (
        lambda: L.sequence_pad(_x(None, 3, lod=1), np.ones([1], "float32")),
        TypeError,
        r"sequence_pad: argument 'pad_value' has to be Variable, not ndarray of shape \[1\]",
    ),
    "a number": (
        lambda: L.dynamic_gru(3.0, 4),
        TypeError,
        "dynamic_gru: argument 'input' has to be Variable, not 3.0 .float.",
    ),
    "text": (lambda: L.unstack(_x(2, 3), "1"), TypeError, "unstack: argument 'axis' .* int, not"),
    "text in a list": (
        lambda: L.transpose(_x(2, 3), [1, "a"]),
        TypeError,
        "transpose: argument 'perm' has to be list of int, not",
    ),
    "nothing in a list": (
        lambda: L.embedding(_x(2, 3), []),
        ValueError,
        r"embedding can't take these arguments together: input=Variable x2 of shape \[2, 3\], "
        r"size=\[\] .list. .list index out of range",
    ),
    "no dimensions": (
        lambda: L.sequence_conv(_x(), 4),
        ValueError,
        "sequence_conv can't take these arguments together: input=Variable x0 of shape",
    ),
    "a type of elements": (
        lambda: L.cast(_x(2), "float33"),
        TypeError,
        "cast can't take .* dtype='float33' .*not understood",
    ),
    "a net's argument": (
        lambda: fluid.nets.glu(_x(2, 4), "1"),
        TypeError,
        "argument 'dim' has to be int",
    ),
    "a layer outside of the stable interface": (
        lambda: fluid.contrib.layers.basic_gru(_x(2, 3, 4), None, 4, num_layers="2"),
        TypeError,
        "basic_gru: argument 'num_layers' has to be int, not '2' .str.",
    ),
    "a rule of shapes": (
        lambda: L.dynamic_lstm(_x(None, lod=1), 8),
        EnforceNotMet,
        r"operator lstm can't take its inputs: (.|\n)*Input\(x1\): float32\[-1\]",
    ),
    "an optimizer's number": (
        lambda: fluid.optimizer.Adam(0.1, beta1=None),
        TypeError,
        "^AdamOptimizer: argument 'beta1' has to be float or Variable, not None$",
    ),
    "an initializer's number": (
        lambda: fluid.initializer.Uniform("-1", 1),
        TypeError,
        "^UniformInitializer: argument 'low' has to be float, not '-1' .str.$",
    ),
    "a decay's number": (
        lambda: fluid.regularizer.L2Decay([0.1]),
        TypeError,
        "^L2DecayRegularizer: argument 'regularization_coeff' has to be float, not",
    ),
    "no decay": (
        lambda: fluid.optimizer.SGD(0.1, regularization=0.1),
        TypeError,
        "'regularization' should be an instance of WeightDecayRegularizer's derived class",
    ),
    "a parameter's name": (
        lambda: fluid.optimizer.SGD(0.1, parameter_list="fc_0.w_0"),
        TypeError,
        "'parameter_list' should be a list of parameters or their names, not 'fc_0.w_0'",
    ),
    "a missing argument": (lambda: L.fc(_x(2, 3)), TypeError, "missing .* 'size'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_words(case: str) -> None:
    build, kind, words = WRONG[case]
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        pytest.raises(kind, match=words) as told,
    ):
        build()
    assert type(told.value) is kind


# Layers that run at once.
AT_ONCE: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "text": (
        lambda: fluid.dygraph.Linear("4", 3),
        TypeError,
        "^Linear: argument 'input_dim' has to be int, not '4' .str.$",
    ),
    "an unknown activation": (
        lambda: fluid.dygraph.GRUUnit(12, activation="sine"),
        ValueError,
        "^GRUUnit can't take these arguments together: size=12 .int., activation='sine'",
    ),
    "a number for an activation": (
        lambda: fluid.dygraph.Linear(4, 3, act=3),
        TypeError,
        "3 is no activation; give the name of one",
    ),
    "no parameters": (
        lambda: fluid.optimizer.SGD(0.1, ["w"])._chosen(None),
        TypeError,
        "'parameter_list' should be a list of parameters, not of str",
    ),
}


@pytest.mark.parametrize("case", AT_ONCE)
def test_words_at_once(case: str) -> None:
    build, kind, words = AT_ONCE[case]
    with fluid.dygraph.guard(), pytest.raises(kind, match=words):
        build()


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5), np.array(0.5), np.int64(1)])
def test_numbers_of_all_kinds(number: Any) -> None:
    fluid.optimizer.Momentum(0.1, number)
    fluid.initializer.Constant(number)
    fluid.regularizer.L1Decay(number)


def test_what_users_raise_stays_as_it_is() -> None:
    def branch() -> fluid.Variable:
        return L.fill_constant([1], "int64", int("one"))

    with fluid.program_guard(fluid.Program(), fluid.Program()):
        right = L.fill_constant([1], "bool", True)
        with pytest.raises(ValueError, match=r"^invalid literal for int"):
            L.cond(right, branch, branch)


def test_what_an_installed_package_raises_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "site-packages" / "models.py"
    names: dict[str, Any] = {}
    exec(compile("def branch():\n    return {}['size']", str(file), "exec"), names)
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        right = L.fill_constant([1], "bool", True)
        with pytest.raises(KeyError, match=r"^'size'$"):
            L.cond(right, names["branch"], names["branch"])


def test_what_refluid_raises_stays_as_it_is() -> None:
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        pytest.raises(ValueError, match=r"^fc: dimensions 1 and on of x2"),
    ):
        L.fc(_x(None, None), 3)


def test_a_layer_is_one_object_by_all_its_names() -> None:
    assert L.fc is L.nn.fc is linear.fc
    assert pickle.loads(pickle.dumps(L.fc)) is L.fc

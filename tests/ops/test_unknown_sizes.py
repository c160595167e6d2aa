"""One size unknown, the other known: what programs declare, and what they then compute."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import refluid.ops  # noqa: F401
from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.ops.probing import PROBES

layers = fluid.layers


def _data(name: str, shape: list[int | None], dtype: str = "float32") -> Variable:
    var = fluid.data(name, shape, dtype)
    var.stop_gradient = dtype != "float32"
    return var


# Layers of two inputs whose rows `a` and `b` are alike, one of which is unknown; the shapes for the
# first unknown and for the second, by Fluid 1.8.5 or, where nothing is recorded, by paddle 2.6.2.
Sizes = tuple[int, ...]
Layer = Callable[[int | None, int | None], Variable]
PAIRS: dict[str, tuple[Layer, Sizes, Sizes]] = {
    "fc": (
        lambda a, b: layers.fc([_data("x", [a, 2]), _data("y", [b, 3])], 5),
        (-1, 5),
        (4, 5),
    ),
    "matmul": (
        lambda a, b: layers.matmul(_data("x", [a, 2, 3]), _data("y", [b, 3, 2])),
        (-1, 2, 2),
        (4, 2, 2),
    ),
    "matmul_of_rows": (
        lambda a, b: layers.matmul(_data("x", [a, 4]), _data("y", [b, 4]), transpose_y=True),
        (-1, 4),
        (4, -1),
    ),
    "sums": (
        lambda a, b: layers.sums([_data("x", [a, 2]), _data("y", [b, 2])]),
        (-1, 2),
        (4, 2),
    ),
    "cos_sim": (
        lambda a, b: layers.cos_sim(_data("x", [a, 3]), _data("y", [b, 3])),
        (-1, 1),
        (4, 1),
    ),
    "bilinear_tensor_product": (
        lambda a, b: layers.bilinear_tensor_product(_data("x", [a, 2]), _data("y", [b, 4]), 3),
        (-1, 3),
        (4, 3),
    ),
    "huber_loss": (
        lambda a, b: layers.huber_loss(_data("x", [a, 1]), _data("y", [b, 1]), 1.0),
        (4, 1),
        (-1, 1),
    ),
    "kldiv_loss": (
        lambda a, b: layers.kldiv_loss(_data("x", [a, 3]), _data("y", [b, 3]), "none"),
        (-1, 3),
        (4, 3),
    ),
    "bpr_loss": (
        lambda a, b: layers.bpr_loss(_data("x", [a, 5]), _data("y", [b, 1], "int64")),
        (-1, 1),
        (4, 1),
    ),
    "log_loss": (
        lambda a, b: layers.log_loss(_data("x", [a, 1]), _data("y", [b, 1])),
        (-1, 1),
        (4, 1),
    ),
    "sigmoid_cross_entropy_with_logits": (
        lambda a, b: layers.sigmoid_cross_entropy_with_logits(
            _data("x", [a, 3]), _data("y", [b, 3])
        ),
        (-1, 3),
        (4, 3),
    ),
    "teacher_student_sigmoid_loss": (
        lambda a, b: layers.teacher_student_sigmoid_loss(_data("x", [a, 1]), _data("y", [b, 1])),
        (-1, 1),
        (4, 1),
    ),
    "cross_entropy": (
        lambda a, b: layers.cross_entropy(_data("x", [a, 3]), _data("y", [b, 1], "int64")),
        (4, 1),
        (-1, 1),
    ),
    "softmax_with_cross_entropy": (
        lambda a, b: layers.softmax_with_cross_entropy(
            _data("x", [a, 3]), _data("y", [b, 1], "int64")
        ),
        (-1, 1),
        (4, 1),
    ),
    "fsp_matrix": (
        lambda a, b: layers.fsp_matrix(_data("x", [a, 2, 4, 4]), _data("y", [b, 3, 4, 4])),
        (-1, 2, 3),
        (4, 2, 3),
    ),
    "grid_sampler": (
        lambda a, b: layers.grid_sampler(_data("x", [a, 2, 3, 3]), _data("y", [b, 3, 3, 2])),
        (-1, 2, 3, 3),
        (4, 2, 3, 3),
    ),
    "elementwise_add": (
        lambda a, b: layers.elementwise_add(_data("x", [a, 3]), _data("y", [b, 3])),
        (4, 3),
        (4, 3),
    ),
    "concat": (
        lambda a, b: layers.concat([_data("x", [a, 3]), _data("y", [b, 3])], 1),
        (4, 6),
        (4, 6),
    ),
    "concat_by_a_tensor": (
        lambda a, b: layers.concat(
            [_data("x", [a, 3]), _data("y", [b, 3])], layers.fill_constant([1], "int32", 1)
        ),
        (-1, -1),
        (-1, -1),
    ),
    "accuracy": (
        lambda a, b: layers.accuracy(_data("x", [a, 3]), _data("y", [b, 1], "int64")),
        (1,),
        (1,),
    ),
    "center_loss": (
        lambda a, b: layers.center_loss(
            _data("x", [a, 5]),
            _data("y", [b, 1], "int64"),
            10,
            0.1,
            fluid.initializer.Constant(0.5),
        ),
        (-1, 1),
        (4, 1),
    ),
}


def _build(layer: Layer, a: int | None, b: int | None) -> tuple[Program, Program, Variable]:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        out = layer(a, b)
    return main, startup, out


def _run(main: Program, startup: Program, out: Variable) -> list[Any]:
    """The result, and the gradients of its sum by the inputs."""
    feeds = {}
    with fluid.program_guard(main, startup):
        for place, name in enumerate(("x", "y")):
            var = main.global_block().var(name)
            shape = [4, *var.shape[1:]]
            random = np.random.RandomState(place)
            feeds[name] = (
                random.randint(0, 3, shape).astype("int64")
                if var.stop_gradient
                else random.uniform(0.1, 0.9, shape).astype("float32")
            )
        inputs = [main.global_block().var(name) for name in feeds]
        wanted = [var for var in inputs if not var.stop_gradient]
        grads = [] if out.stop_gradient else fluid.gradients([layers.reduce_sum(out)], wanted)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    with fluid.scope_guard(scope):
        exe.run(startup)
        return list(exe.run(main, feed=feeds, fetch_list=[out, *filter(None, grads)]))


@pytest.mark.parametrize("name", PAIRS)
def test_declared_and_computed(name: str) -> None:
    layer, first, second = PAIRS[name]
    whole = _run(*_build(layer, 4, 4))
    for (a, b), expected in (((None, 4), first), ((4, None), second)):
        main, startup, out = _build(layer, a, b)
        assert tuple(out.shape) == expected
        for found, wanted in zip(_run(main, startup, out), whole, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dim", [None, 1])
def test_a_number_of_unknown_size(dim: int | None) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        assert layers.fill_constant([3, 2], "float32", _data("v", [dim])).shape == (3, 2)


def test_parts_along_an_axis_in_a_tensor() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x, axis = _data("x", [3, 4]), layers.fill_constant([1], "int32", 1)
        parts = [*layers.split(x, 2, axis), *layers.split(x, [1, 3], axis)]
        assert [part.shape for part in parts] == [(-1, -1)] * 4
    values = np.arange(12, dtype="float32").reshape(3, 4)
    found = fluid.Executor(fluid.CPUPlace()).run(main, feed={"x": values}, fetch_list=parts)
    for part, (begin, end) in zip(found, ((0, 2), (2, 4), (0, 1), (1, 4)), strict=True):
        np.testing.assert_array_equal(part, values[:, begin:end])


REFUSED: dict[str, Callable[[], Any]] = {
    "matmul": lambda: layers.matmul(_data("x", [None, 3]), _data("y", [4, 5])),
    "bilinear_tensor_product": lambda: layers.bilinear_tensor_product(
        _data("x", [None, 3]), _data("y", [None, 5, 2]), 3
    ),
    "reshape": lambda: layers.reshape(_data("x", [None, 7]), [2, 0, 3, 0]),
    "concat": lambda: layers.concat([_data("x", [None, 3]), _data("y", [None, 4])], 0),
    "unfold": lambda: layers.unfold(_data("x", [None, 3, 2, 2]), 5),
    "elementwise_add": lambda: layers.elementwise_add(_data("x", [None, 3]), _data("y", [None, 4])),
    "layer_norm": lambda: layers.layer_norm(_data("x", [3, None, 5])),
    "expand_by_a_tensor": lambda: layers.expand(_data("x", [3, 4]), _data("s", [3], "int32")),
    "resize_by_a_tensor": lambda: layers.resize_nearest(
        _data("x", [3, 4, 5, 5]), out_shape=[_data("s", [1], "int32"), 0]
    ),
    "affine_channel": lambda: layers.affine_channel(
        _data("x", [None, 3, 4, 4]), _data("s", [5]), _data("b", [5])
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_probes_are_never_spoken_of(name: str) -> None:
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        pytest.raises((EnforceNotMet, ValueError, TypeError)) as refusal,
    ):
        REFUSED[name]()
    numbers = [int(one) for one in re.findall(r"\d+", str(refusal.value).split("\n")[0])]
    probes = {size for pair in PROBES for size in pair}
    assert not [one for one in numbers if one > 1 and any(one % probe == 0 for probe in probes)]
    assert max(numbers, default=0) < 1000


def test_parts_of_an_unknown_size_are_counted_by_num() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = _data("x", [2, None, 5])
        parts = layers.unstack(x, axis=1, num=3)
        assert [one.shape for one in parts] == [(2, 5)] * 3
        with pytest.raises(EnforceNotMet, match="as X has along axis 1: 4, but num is 3"):
            layers.unstack(_data("y", [2, 4, 5]), axis=1, num=3)
    main = main.clone()
    main.global_block()._remove_op(1)
    fed = np.arange(30, dtype="float32").reshape(2, 3, 5)
    exe = fluid.Executor(fluid.CPUPlace())
    found = exe.run(main, feed={"x": fed}, fetch_list=[one.name for one in parts])
    np.testing.assert_array_equal(np.stack(found, 1), fed)
    with pytest.raises(EnforceNotMet, match="as X has along axis 1: 2, but num is 3"):
        exe.run(main, feed={"x": fed[:, :2]}, fetch_list=[parts[0].name])


def test_a_rank_that_depends_on_an_unknown_size() -> None:
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        pytest.raises(EnforceNotMet, match="how many dimensions a result has depends on a size"),
    ):
        layers.gather_nd(_data("x", [3, 4, 5]), _data("index", [2, None], "int64"))

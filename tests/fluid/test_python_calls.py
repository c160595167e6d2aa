"""py_func, files written and read by operators, subscripts, and operators that are left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet, OperatorNotImplemented
from refluid.fluid.layers.device import get_places
from refluid.ir.absent import left_out
from refluid.ops.registry import find

L = fluid.layers
X = np.random.RandomState(1).standard_normal((3, 4)).astype("float32")


def _run(build: Callable[[], Any], feed: dict[str, Any] | None = None) -> Any:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        fetches = build()
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        return executor.run(main, feed=feed, fetch_list=fetches)


def _x() -> fluid.Variable:
    x = fluid.data("x", [3, 4])
    x.stop_gradient = False
    return x


def _var(name: str, *shape: int) -> fluid.Variable:
    block = fluid.default_main_program().current_block()
    return block.create_var(name=name, shape=list(shape), dtype="float32")


def test_py_func_and_its_gradient() -> None:
    seen: list[tuple[Any, ...]] = []

    def backward(out: Any, flow: Any) -> Any:
        seen.append((np.array(out).shape, np.array(flow).shape))
        return np.array(flow) * (1 - np.array(out) ** 2)

    def build() -> list[Any]:
        x, out = _x(), _var("out", 3, 4)
        made = L.py_func(lambda a: np.tanh(np.array(a)), x, out, backward, x)
        assert made is out
        return [out, fluid.gradients(L.reduce_sum(out), x)[0]]

    out, grad = _run(build, {"x": X})
    np.testing.assert_allclose(out, np.tanh(X), rtol=1e-6)
    np.testing.assert_allclose(grad, 1 - np.tanh(X) ** 2, rtol=1e-5)
    assert seen == [((3, 4), (3, 4))]


def test_py_func_of_several_variables() -> None:
    def both(a: Any, b: Any) -> tuple[Any, Any]:
        return np.array(a) + np.array(b), np.array(a).sum().reshape(1)

    def flows(a: Any, b: Any, s: Any, t: Any, ds: Any, dt: Any) -> tuple[Any, None]:
        return np.array(ds) + np.array(dt), None

    def build() -> list[Any]:
        x, y = _x(), L.scale(fluid.data("y", [3, 4]), 2.0)
        made = L.py_func(both, [x, y], [_var("s", 3, 4), _var("t", 1)], backward_func=flows)
        loss = L.reduce_sum(made[0]) + made[1]
        return [*made, fluid.gradients(loss, x)[0]]

    total, one, grad = _run(build, {"x": X, "y": X})
    np.testing.assert_allclose(total, 3 * X, rtol=1e-6)
    np.testing.assert_allclose(one, [X.sum()], rtol=1e-5)
    np.testing.assert_array_equal(grad, np.full((3, 4), 2.0))


def test_py_func_for_its_effect_alone() -> None:
    seen: list[Any] = []

    def build() -> list[Any]:
        x = _x()
        L.py_func(lambda a: seen.append(np.array(a)), x, None)
        return [x]

    _run(build, {"x": X})
    np.testing.assert_array_equal(seen[0], X)


def test_py_func_says_what_is_wrong() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = _x()
        with pytest.raises(TypeError, match="must be a callable"):
            L.py_func(3, x, _var("a", 1))
        with pytest.raises(ValueError, match="provided by users"):
            L.py_func(abs, x, L.create_tensor("float32"))
        with pytest.raises(ValueError, match="is not found"):
            L.py_func(abs, x, _var("b", 1), abs, _var("c", 1))

    def build() -> list[Any]:
        def fail(a: Any) -> Any:
            raise RuntimeError("no luck today")

        return [L.py_func(fail, _x(), _var("d", 1))]

    def short() -> list[Any]:
        return list(L.py_func(np.array, _x(), [_var("e", 1), _var("f", 1)]))

    with pytest.raises(EnforceNotMet, match="returned 1 values for 2 variables"):
        _run(short, {"x": X})
    with pytest.raises(EnforceNotMet, match=r"(?s)py_func.*no luck today|no luck today.*py_func"):
        _run(build, {"x": X})


def test_operators_write_and_read_files(tmp_path: Path) -> None:
    one, many = str(tmp_path / "one"), str(tmp_path / "deep" / "many")

    def build() -> list[Any]:
        x = _x()
        block = fluid.default_main_program().global_block()
        block.append_op(type="save", inputs={"X": [x]}, attrs={"file_path": one})
        twice = L.scale(x, 2.0)
        inputs = {"X": [x, twice]}
        block.append_op(type="save_combine", inputs=inputs, attrs={"file_path": many})
        back, half = L.create_tensor("float32"), L.create_tensor("float16")
        L.load(back, one)
        L.load(half, one, load_as_fp16=True)
        outs = [L.create_tensor("float32") for _ in range(2)]
        block.append_op(type="load_combine", outputs={"Out": outs}, attrs={"file_path": many})
        return [back, half, *outs]

    back, half, first, second = _run(build, {"x": X})
    np.testing.assert_array_equal(back, X)
    np.testing.assert_array_equal(half, X.astype("float16"))
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, 2 * X)


def test_save_refuses_to_overwrite(tmp_path: Path) -> None:
    def build() -> list[Any]:
        x = _x()
        attrs = {"file_path": str(tmp_path / "one"), "overwrite": False}
        block = fluid.default_main_program().global_block()
        block.append_op(type="save", inputs={"X": [x]}, attrs=attrs)
        return [x]

    _run(build, {"x": X})
    with pytest.raises(EnforceNotMet, match="exists already"):
        _run(build, {"x": X})


def test_get_places() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        places = get_places(device_count=2, device_type="CPU")
        places.persistable = True
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        fluid.Executor(fluid.CPUPlace()).run(main)
    assert [str(place) for place in scope.find_var(places.name).value] == ["CPUPlace"] * 2


# Index, the same for NumPy.
SUBSCRIPTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "int": (lambda a: a[1], lambda a: a[1]),
    "last": (lambda a: a[-1], lambda a: a[-1]),
    "ellipsis": (lambda a: a[..., 0], lambda a: a[..., 0]),
    "strided": (lambda a: a[0:3:2, 1], lambda a: a[0:3:2, 1]),
    "backwards": (lambda a: a[:, ::-1], lambda a: a[:, ::-1]),
    "variable": (lambda a: a[L.fill_constant([1], "int32", 2)], lambda a: a[2]),
    "bounds": (
        lambda a: a[1 : L.fill_constant([1], "int32", 3), L.fill_constant([1], "int32", 1) :],
        lambda a: a[1:3, 1:],
    ),
}


@pytest.mark.parametrize("case", SUBSCRIPTS)
def test_subscripts(case: str) -> None:
    ours, numpys = SUBSCRIPTS[case]
    (found,) = _run(lambda: [ours(_x())], {"x": X})
    np.testing.assert_array_equal(found, numpys(X))


def test_subscript_names() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x = _x()
        assert [x[0].name, x[0:1].name] == ["x_slice_0", "x_slice_1"]
        assert x[:] is x
        op = x.block.ops[0]
        assert op.attr("infer_flags") == [1]
        assert op.attr("decrease_axis") == [0]


def test_operators_left_out_say_why() -> None:
    block = fluid.Program().global_block()
    for op_type in left_out():
        assert find(op_type) is None
        with pytest.raises(OperatorNotImplemented, match=f"no operator '{op_type}': it "):
            block.append_op(type=op_type)
    with pytest.raises(OperatorNotImplemented, match=r"no operator 'nonsense'\."):
        block.append_op(type="nonsense")

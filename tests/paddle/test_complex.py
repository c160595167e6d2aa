"""Functions of `paddle.complex` against NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import refluid.paddle
from refluid.fluid import dygraph

complexes = refluid.paddle.complex
TWO = {
    "elementwise_add": np.add,
    "elementwise_sub": np.subtract,
    "elementwise_mul": np.multiply,
    "elementwise_div": np.divide,
    "kron": np.kron,
}
ONE: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "trace": ({"offset": 1}, lambda x: np.trace(x, 1)),
    "sum": ({"dim": 1, "keep_dim": True}, lambda x: x.sum(1, keepdims=True)),
    "reshape": ({"shape": [-1]}, lambda x: x.reshape(-1)),
    "transpose": ({"perm": [1, 0]}, lambda x: x.T),
}


def _drawn(seed: int, kind: str) -> np.ndarray:
    random = np.random.RandomState(seed)
    made = random.randn(3, 4) + 1j * random.randn(3, 4)
    return made.astype(kind)


@pytest.mark.parametrize("kind", ["complex64", "complex128"])
@pytest.mark.parametrize("name", TWO)
def test_of_two(name: str, kind: str) -> None:
    x, y = _drawn(0, kind), _drawn(1, kind)
    with dygraph.guard():
        for a, b in [(x, y), (x, y.real), (x.real, y)]:
            given = [dygraph.to_variable(np.ascontiguousarray(one)) for one in (a, b)]
            found = getattr(complexes, name)(*given).numpy()
            assert found.dtype == kind
            np.testing.assert_allclose(found, TWO[name](a, b), rtol=1e-4)
        with pytest.raises(TypeError, match="should be ComplexVariable"):
            real = dygraph.to_variable(np.ascontiguousarray(x.real))
            getattr(complexes, name)(real, real)


@pytest.mark.parametrize("name", ONE)
def test_of_one(name: str) -> None:
    x = _drawn(2, "complex128")
    given, function = ONE[name]
    with dygraph.guard():
        found = getattr(complexes, name)(dygraph.to_variable(x), **given).numpy()
    np.testing.assert_allclose(found, function(x), rtol=1e-12)


def test_products_of_matrices_and_gradients() -> None:
    x, y = _drawn(3, "complex128"), _drawn(4, "complex128")
    with dygraph.guard():
        a, b = dygraph.to_variable(x), dygraph.to_variable(y)
        a.stop_gradient = False
        out = complexes.matmul(a, b, transpose_y=True)
        np.testing.assert_allclose(out.numpy(), x @ y.T, rtol=1e-12)
        (out.real.sum() + out.imag.sum()).backward()
        row = y.sum(0)
        np.testing.assert_allclose(a.real.gradient()[0], row.real + row.imag)
        np.testing.assert_allclose(a.imag.gradient()[0], row.real - row.imag)

"""Bounds of attributes and ranks of inputs, which operators have as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np
import pytest
from torch import Tensor

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.ir.attributes import AttrType
from refluid.ir.checks import above, at_least, between, odd, one_of, rank
from refluid.ops.signature import Long, read_signature

L = fluid.layers


@pytest.fixture(autouse=True)
def _programs() -> Iterator[None]:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        yield


def _body(
    X: Annotated[Tensor | None, rank(4)] = None,
    *,
    size: Annotated[Long, above(0), odd] = 3,
    kind: Annotated[str, one_of("a", "b")] = "a",
) -> None: ...


def test_signatures_tell_types_from_checks() -> None:
    found = read_signature(_body)
    assert [check.says for check in found.inputs[0].checks] == ["of 4 dimensions"]
    assert found.inputs[0].optional
    size, kind = found.attributes["size"], found.attributes["kind"]
    assert (size.kind, kind.kind) == (AttrType.LONG, AttrType.STRING)
    assert [check.says for check in size.checks] == ["greater than 0", "odd"]
    assert [check.says for check in kind.checks] == ["one of 'a', 'b'"]


def test_bounds_hold_in_single_precision() -> None:
    small = between(0.0, 0.001)
    assert all(small.holds(value) for value in (0.0, 0.001, float(np.float32(0.001))))
    assert not any(small.holds(value) for value in (-1e-6, 0.0010001, 1.0))
    assert at_least(1).holds(1)
    assert not above(1).holds(1)


def _x(*shape: int) -> fluid.Variable:
    return fluid.data("x", list(shape))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "batch_norm": (lambda: L.batch_norm(_x(2, 3), epsilon=0.01), "'epsilon' .* from 0 to 0.001"),
    "rank": (lambda: L.batch_norm(_x(2, 1, 1, 1, 1, 1)), r"input X \(x\) has to be of 2 or 3"),
    "inplace_abn": (lambda: L.inplace_abn(_x(2, 3), epsilon=-0.1), "operator inplace_abn"),
    "instance_norm": (lambda: L.instance_norm(_x(2, 3), epsilon=0.1), "operator instance_norm"),
    "layer_norm": (lambda: L.layer_norm(_x(2, 3), epsilon=0.1), "but it is 0.1"),
    "data_norm": (lambda: L.data_norm(_x(2, 3), epsilon=0.1), "operator data_norm"),
    "lrn": (lambda: L.lrn(_x(2, 3, 2, 2), n=4), "'n' has to be odd, but it is 4"),
    "dropout": (lambda: L.dropout(_x(2, 3), 2.0), "from 0 to 1"),
    "shuffle_channel": (lambda: L.shuffle_channel(_x(2, 4, 2, 2), 0), "at least 1"),
    "space_to_depth": (lambda: L.space_to_depth(_x(2, 4, 2, 2), 1), "greater than 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_when_the_program_is_built(case: str) -> None:
    build, says = REFUSED[case]
    with pytest.raises(EnforceNotMet, match=says) as caught:
        build()
    assert "test_checks.py" in str(caught.value)


def test_what_is_refused_is_not_in_the_program() -> None:
    with pytest.raises(EnforceNotMet):
        L.dropout(_x(2, 3), -0.5)
    assert not fluid.default_main_program().global_block().ops


def test_dropout_for_inference_has_no_gradient() -> None:
    x = _x(2, 3)
    x.stop_gradient = False
    loss = L.mean(L.dropout(x, 0.5, is_test=True))
    with pytest.raises(EnforceNotMet, match="dropout_grad: attribute 'is_test'"):
        fluid.gradients(loss, x)


@pytest.mark.parametrize("layer", [L.batch_norm, L.inplace_abn])
@pytest.mark.parametrize("use_global_stats", [False, True])
def test_norms_for_inference_have_no_gradient(layer: Any, use_global_stats: bool) -> None:
    x = _x(2, 3)
    x.stop_gradient = False
    out = layer(L.scale(x, 2.0), is_test=True, use_global_stats=use_global_stats)
    (d_x,) = fluid.gradients(L.mean(out), x)
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        executor.run(fluid.default_startup_program())
        feed = {"x": np.ones((2, 3), "float32")}
        with pytest.raises(EnforceNotMet, match="is_test=True has no gradient"):
            executor.run(feed=feed, fetch_list=[d_x])

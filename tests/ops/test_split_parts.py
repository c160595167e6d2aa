"""Operators of layers that are split, in groups of threads, beside NumPy on the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid.comm import Communicator
from refluid.core.errors import EnforceNotMet
from refluid.ir.program import Program
from refluid.ops.registry import find, gradient_ops
from tests.comm.groups import as_threads


def body(name: str) -> Callable[..., Any]:
    definition = find(name)
    assert definition is not None and definition.body is not None
    return definition.body


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


@pytest.mark.parametrize(("seed", "size"), [(0, 1), (1, 2), (2, 3), (3, 4)])
def test_parts_and_whole(seed: int, size: int) -> None:
    """What is split and joined is as before, and a sum is that of all members."""
    x = drawn(seed, 2, 3, 2 * size)

    def work(comm: Communicator) -> Any:
        part = body("c_split")(x, comm=comm, nranks=size)
        whole = body("c_concat")(part, comm=comm, nranks=size)
        return part, whole, body("mp_allreduce_sum")(part * (comm.rank + 1), comm=comm)

    parts = np.split(x.numpy(), size, -1)
    total = sum(one * (rank + 1) for rank, one in enumerate(parts))
    for rank, (part, whole, summed) in enumerate(as_threads(size, work)):
        np.testing.assert_array_equal(part.numpy(), parts[rank])
        np.testing.assert_array_equal(whole.numpy(), x.numpy())
        np.testing.assert_allclose(summed.numpy(), total, rtol=1e-12)
    assert body("c_identity")(x) is x


@pytest.mark.parametrize(
    ("op_type", "gradient"),
    [
        ("c_identity", "mp_allreduce_sum"),
        ("mp_allreduce_sum", "c_identity"),
        ("c_split", "c_concat"),
        ("c_concat", "c_split"),
    ],
)
def test_gradients_are_the_other_way_round(op_type: str, gradient: str) -> None:
    block = Program().global_block()
    x, out = (block.create_var(name=one, shape=[2, 4], dtype="float32") for one in ("x", "out"))
    attrs = {"ring_id": 3} | ({"nranks": 2} if op_type in ("c_split", "c_concat") else {})
    op = block.append_op(op_type, inputs={"X": x}, outputs={"Out": out}, attrs=attrs)
    (made,) = gradient_ops(op)
    assert made.type == gradient and made.inputs == {"X": ["out@GRAD"]}
    assert made.outputs == {"Out": ["x@GRAD"]}
    assert tuple(out.shape) == {"c_split": (2, 2), "c_concat": (2, 8)}.get(op_type, (2, 4))


@pytest.mark.parametrize(("seed", "size"), [(0, 1), (1, 2), (2, 3)])
def test_tables(seed: int, size: int) -> None:
    rows = 4
    table, ids = (
        drawn(seed, rows * size, 3),
        np.random.default_rng(seed).integers(0, rows * size, (5, 2)),
    )

    def part(rank: int, given: Any) -> Tensor:
        own = table[rank * rows : (rank + 1) * rows].clone().requires_grad_()
        found = body("c_embedding")(own, given, start_index=rank * rows, vocab_size=rows * size)
        found.sum().backward()
        return found.detach(), own.grad

    found = [part(rank, torch.from_numpy(ids)) for rank in range(size)]
    np.testing.assert_array_equal(sum(one for one, _ in found).numpy(), table.numpy()[ids])
    counts = np.bincount(ids.reshape(-1), minlength=rows * size)
    grads = torch.cat([grad for _, grad in found]).numpy()
    np.testing.assert_array_equal(grads, np.repeat(counts[:, None], 3, 1))
    for wrong in (-1, rows * size):
        with pytest.raises(EnforceNotMet, match="an id is outside"):
            part(0, torch.tensor([[wrong]]))


@pytest.mark.parametrize(("seed", "size"), [(0, 1), (1, 2), (2, 4)])
def test_cross_entropy(seed: int, size: int) -> None:
    classes, rows = 3 * size, 5
    logits = drawn(seed, rows, classes) * 20
    label = torch.from_numpy(np.random.default_rng(seed).integers(0, classes, (rows, 1)))
    label[0] = -100

    def work(comm: Communicator) -> Any:
        own = logits[:, comm.rank * 3 : comm.rank * 3 + 3]
        softmax, loss = body("c_softmax_with_cross_entropy")(own, label, comm=comm)
        slope = torch.full_like(loss, 2.0)
        grad = body("c_softmax_with_cross_entropy_grad")(label, softmax, slope, comm=comm)
        return softmax, loss, grad

    powers = np.exp(logits.numpy() - logits.numpy().max(1, keepdims=True))
    soft = powers / powers.sum(1, keepdims=True)
    hot, own = np.zeros_like(soft), np.arange(1, rows)
    hot[own, label.numpy()[1:, 0]] = 1
    expected = -np.log((soft * hot).sum(1, keepdims=True)[1:])
    grads = 2 * (soft - hot)
    grads[0] = 0
    found = as_threads(size, work)
    for softmax_part, (softmax, loss, grad) in enumerate(found):
        at = slice(3 * softmax_part, 3 * softmax_part + 3)
        np.testing.assert_allclose(softmax.numpy(), soft[:, at], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(loss.numpy()[1:], expected, rtol=1e-9)
        assert float(loss[0]) == 0
        np.testing.assert_allclose(grad.numpy(), grads[:, at], rtol=1e-9, atol=1e-12)


def test_what_has_no_parts_or_class() -> None:
    def work(comm: Communicator) -> Any:
        return body("c_split")(torch.ones(2, 3), comm=comm, nranks=2)

    assert all("3 has no 2 equal parts" in str(one) for one in as_threads(2, work))
    logits, label = torch.ones(1, 3), torch.tensor([[3]])
    (found,) = as_threads(
        1, lambda comm: body("c_softmax_with_cross_entropy")(logits, label, comm=comm)
    )
    assert "a label is outside [0, 3)" in str(found)

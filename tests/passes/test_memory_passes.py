"""Passes that need less memory: the same numbers to the bit, and what moves where."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.analysis.batching import batches
from refluid.fluid.contrib.memory_report import memory_report
from refluid.ir.program import Program
from refluid.passes.early_updates import UpdateGroups, early_updates
from refluid.passes.recompute_activations import AGAIN
from tests.passes.networks import Network, conv, norm, types
from tests.passes.rewriting import passed

layers = fluid.layers


def _residual(image: object) -> object:
    second = layers.relu(layers.elementwise_add(norm(image), norm(norm(image, act="relu"))))
    return conv(layers.gelu(conv(second)))


def _early(program: Program, least: int) -> Program:
    copy = program.clone()
    early_updates(copy, UpdateGroups(least))
    return copy


def _again(program: Program, kept: Sequence[str] = ()) -> Program:
    return passed(program, "recompute_activations", kept=kept).program


def _equal(first: tuple, second: tuple) -> bool:
    losses, values = first
    others, others_values = second
    return losses == others and all(
        torch.equal(value, others_values[name]) for name, value in values.items()
    )


@pytest.mark.parametrize("group", [1, 200, 1 << 20])
def test_updates_run_when_their_gradients_are_there(group: int) -> None:
    net = Network(_residual)
    early = _early(net.main, group)
    order = [op.type for op in early.global_block().ops]
    assert sorted(order) == sorted(op.type for op in net.main.global_block().ops)
    behind = len(order) - max(i for i, one in enumerate(order) if one != "sgd") - 1
    assert (behind == order.count("sgd")) == (group == 1 << 20)
    for positions in batches(early.global_block().ops, most=group).values():
        assert positions == list(range(positions[0], positions[-1] + 1))
    assert _equal(net.run(net.main), net.run(early))


def test_every_program_of_many_parameters_gets_them() -> None:
    """The peak is that of the activations and one group of gradients, not of all gradients."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        found = fluid.data("x", [None, 1024])
        for _ in range(6):
            found = layers.fc(found, 1024, bias_attr=False)
        loss = layers.mean(found)
        fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        report = memory_report(exe, main, {"x": np.ones((2, 1024), "float32")}, [loss])
    parameters = 6 * 4 << 20
    assert parameters < report.peak < parameters + (9 << 20)


def test_an_update_stays_before_those_who_rely_on_it() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 4])
        shared = fluid.ParamAttr(name="w")
        first = layers.mean(layers.fc(x, 4, param_attr=shared, bias_attr=False))
        fluid.optimizer.SGD(0.1).minimize(first)
        second = layers.mean(layers.fc(x, 4, param_attr=shared, bias_attr=False))
        fluid.optimizer.SGD(0.1).minimize(second)
    order = [op.type for op in _early(main, 1 << 30).global_block().ops]
    assert order.index("sgd") < len(order) - 1 - order[::-1].index("mul")


def test_activations_are_computed_again() -> None:
    net = Network(_residual)
    again = _again(net.main, [net.loss])
    added = [op for op in again.global_block().ops if AGAIN in "".join(op.output_arg_names)]
    assert sorted({op.type for op in added}) == ["batch_norm", "elementwise_add", "gelu", "relu"]
    assert _equal(net.run(net.main), net.run(again))
    assert _equal(net.run(net.main), net.run(_early(again, 1)))


def test_near_misses() -> None:
    inference = Network(_residual, train=False)
    assert _again(inference.main) is inference.main
    assert passed(inference.main, "early_updates").program is inference.main
    plain = Network(lambda image: conv(layers.relu(conv(image))))
    # Nothing keeps what relu is made of, so there is nothing to make it of again.
    assert types(_again(plain.main)) == types(plain.main)
    net = Network(lambda image: conv(norm(image, act="relu")))
    name = next(op for op in net.main.global_block().ops if op.type == "relu").output("Out")[0]
    assert _again(net.main, [name]) is net.main
    fixed = Network(lambda image: conv(norm(image, act="relu", use_global_stats=True)))
    assert _again(fixed.main) is fixed.main

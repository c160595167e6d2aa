"""Results that cost something are not computed where nobody reads them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.runtime.plan import Plan
from refluid.runtime.request import Request


@pytest.mark.parametrize("trained", [False, True])
def test_ctc_gradient_is_made_for_training_only(trained: bool) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        logits = fluid.data("logits", [None, 5], "float32", lod_level=1)
        logits.stop_gradient = False
        label = fluid.data("label", [None, 1], "int32", lod_level=1)
        loss = fluid.layers.mean(fluid.layers.warpctc(logits, label))
        if trained:
            fluid.gradients(loss, logits)
    names = ("logits", "label")
    request = Request(
        main.global_block(), names, (loss.name,), torch.device("cpu"), frozenset(names)
    )
    assert ("need=(False, True)" in Plan(request).text) is not trained


@pytest.mark.parametrize(("huber", "weighted"), [(True, False), (False, False), (False, True)])
def test_losses_are_the_same_whatever_is_read(huber: bool, weighted: bool) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x, y, w = (fluid.data(name, [7, 5], "float32") for name in "xyw")
        x.stop_gradient = y.stop_gradient = False
        given = {"inside_weight": w} if weighted else {}
        made = (
            fluid.layers.huber_loss(x, y, 0.5) if huber else fluid.layers.smooth_l1(x, y, **given)
        )
        both = fluid.gradients(made, [x, y])
        one, other = fluid.gradients(made, [x]), fluid.gradients(made, [y])
    between = main.global_block().ops[0].output("Residual" if huber else "Diff")[0]
    draw = np.random.RandomState(0)
    feed = {name: draw.normal(size=(7, 5)).astype("float32") for name in "xyw"}
    feed["x"][0] = feed["y"][0]

    def run(*fetches: object) -> list[np.ndarray]:
        found: list[np.ndarray] = fluid.Executor().run(main, feed, list(fetches))
        return found

    loss, _, *gradients = run(made, between, *both)
    assert np.array_equal(run(made)[0], loss)
    assert np.array_equal(run(*one)[0], gradients[0])
    assert np.array_equal(run(*other)[0], gradients[1])
    assert np.allclose(gradients[0], -gradients[1])

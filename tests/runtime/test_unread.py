"""Results that cost something are not computed where nobody reads them."""

from __future__ import annotations

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

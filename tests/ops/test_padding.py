"""Gradients of padding: right ones, and those that Fluid's CPU copies in packets."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.ops.tensor.padding import pad_constant_like_grad, pad_grad

FAULTS = "FLAGS_refluid_fluid_cpu_faults"


def test_gradient_is_the_part_that_was_padded() -> None:
    d_out = torch.randn(5, 11)
    assert torch.equal(pad_grad(d_out, paddings=[1, 1, 0, 2]), d_out[1:4, :9])
    assert torch.equal(pad_constant_like_grad(torch.zeros(3, 9), d_out), d_out[:3, :9])


def test_fluids_cpu_copies_packets_across_the_ends_of_rows() -> None:
    d_out = torch.randn(5, 20)
    with flags.override({FAULTS: True}):
        found = pad_grad(d_out, paddings=[1, 1, 0, 11])
    wanted = d_out[1:4, :9].clone()
    wanted.view(-1)[8:16] = d_out.view(-1)[20 + 8 : 20 + 16]
    wanted.view(-1)[16:24] = d_out.view(-1)[40 + 7 : 40 + 15]
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("faults", [False, True])
def test_gradient_narrower_than_a_packet(faults: bool) -> None:
    d_out = torch.randn(3, 5)
    with flags.override({FAULTS: faults}):
        assert torch.equal(pad_grad(d_out, paddings=[0, 1, 2, 0]), d_out[:2, 2:])
        assert torch.equal(pad_constant_like_grad(torch.zeros(2, 3), d_out), d_out[:2, :3])


def test_a_mode_that_is_none_is_told() -> None:
    with fluid.dygraph.guard():
        x = fluid.dygraph.to_variable(np.ones((1, 1, 3, 3), "float32"))
        with pytest.raises(EnforceNotMet, match=r"pad2d: attribute 'mode' has to be .*'circular'"):
            fluid.layers.pad2d(x, [1, 1, 1, 1], mode="circular")

"""Momentum with deep gradient compression against NumPy, and its operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.ops.optimizer.dgc import dgc, dgc_clip_by_norm

opt = fluid.optimizer
WIDTH, RATE = 20000, 0.1


def train(optimizer: Any, steps: int) -> tuple[list[Any], list[Any]]:
    """The wide parameter after each step, and its gradients."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [-1, WIDTH])
        wide = fluid.layers.create_parameter([WIDTH], "float32", name="wide")
        loss = fluid.layers.reduce_sum(fluid.layers.elementwise_mul(x, wide))
        optimizer.minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    found = []
    grads = list(np.random.RandomState(2).randn(steps, WIDTH).astype("float32"))
    with fluid.scope_guard(scope):
        exe.run(startup)
        scope.find_var("wide").get_tensor().set(np.zeros(WIDTH, "float32"), fluid.CPUPlace())
        for grad in grads:
            exe.run(main, {"x": grad[None]})
            found.append(np.array(scope.find_var("wide").get_tensor()))
    return found, grads


@pytest.mark.parametrize("nesterov", [False, True])
def test_two_plain_steps_then_sparse_ones(nesterov: bool) -> None:
    made = opt.DGCMomentumOptimizer(
        RATE, 0.9, rampup_begin_step=2, rampup_step=2, sparsity=[0.5, 0.9], use_nesterov=nesterov
    )
    found, grads = train(made, 5)
    param, velocity, u, v = (np.zeros(WIDTH) for _ in range(4))
    for step, grad in enumerate(grads):
        if step < 2:
            velocity = 0.9 * velocity + grad
            param = param - RATE * (grad + 0.9 * velocity if nesterov else velocity)
        else:
            u = 0.9 * (u + grad) if nesterov else 0.9 * u + grad
            v = v + u + grad if nesterov else v + u
            count = WIDTH // 2 if step == 2 else WIDTH // 10
            sent = np.abs(v) >= np.sort(np.abs(v))[-count]
            param = param - RATE * v * sent
            u, v = u * ~sent, v * ~sent
        np.testing.assert_allclose(found[step], param, rtol=1e-4, atol=1e-5)


def test_small_parameters_take_plain_momentum() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [-1, 3]), 2))
        ops, _ = opt.DGCMomentumOptimizer(0.1, 0.9, rampup_begin_step=0).minimize(loss)
    assert [op.type for op in ops] == ["momentum", "momentum"]


def test_clips_by_the_norm_of_one_trainer() -> None:
    clip = fluid.clip.GradientClipByNorm(6.0)
    made = opt.DGCMomentumOptimizer(
        RATE, 0.0, rampup_begin_step=0, sparsity=[0.0], grad_clip=clip, num_trainers=4
    )
    found, grads = train(made, 1)
    np.testing.assert_allclose(
        found[0], -RATE * grads[0] * 3.0 / np.linalg.norm(grads[0]), rtol=1e-4, atol=1e-7
    )
    with pytest.raises(TypeError, match="num_trainers"):
        opt.DGCMomentumOptimizer(RATE, 0.0, 0, grad_clip=clip)
    with pytest.raises(TypeError, match="GradientClipByNorm"):
        opt.DGCMomentumOptimizer(RATE, 0.0, 0, grad_clip=fluid.clip.GradientClipByValue(1.0))


def test_nothing_is_lost() -> None:
    """What is sent and what waits add up to what came."""
    u, v, grad = torch.zeros(100), torch.zeros(100), torch.randn(100)
    _, rest, sent, count = dgc(
        u, v, grad, torch.zeros(1), m=0.0, use_nesterov=False, sparsity=[0.9]
    )
    assert int(count) == np.count_nonzero(sent) == 10
    torch.testing.assert_close(sent + rest, grad)


def test_clip_waits_for_its_step() -> None:
    x = torch.tensor([3.0, 4.0])
    for step, length in ((0, 5.0), (2, 1.0)):
        found = dgc_clip_by_norm(torch.tensor([step]), x, rampup_begin_step=2.0, max_norm=1.0)
        torch.testing.assert_close(found.norm(), torch.tensor(length))

"""Ctrl-C at each call of a step: the next steps train as if it hadn't come."""

from __future__ import annotations

import gc
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.comm.servers import drop_link, put_link
from refluid.core import flags
from refluid.kernels.collecting import without_collections
from refluid.kernels.settings import under
from refluid.kernels.watching import is_watched
from refluid.runtime import kernels
from refluid.runtime.kernels import KernelChoice, KernelSettings
from tests.interrupting import (
    InterruptedAt,
    Lingering,
    interrupted_at_each_call,
    interrupted_in,
    interruptible,
)


def test_steps_of_dygraph_train_after_ctrl_c_at_any_call() -> None:
    with fluid.dygraph.guard():
        layer = fluid.dygraph.Linear(8, 1)
        optimizer = fluid.optimizer.SGD(0.01, parameter_list=layer.parameters())
        given = fluid.dygraph.to_variable(np.ones((4, 8), "float32"))

        def step() -> None:
            loss = fluid.layers.mean(layer(given))
            loss.backward()
            optimizer.minimize(loss)
            layer.clear_gradients()

        for _ in range(4):
            step()
        for at in interrupted_at_each_call(step):
            assert torch.is_grad_enabled(), at
            layer.clear_gradients()
            before = layer.weight.numpy()
            step()
            np.testing.assert_allclose(before - layer.weight.numpy(), 0.01, rtol=1e-3)
        assert at > 100


def test_what_is_called_without_gradients_gives_them_back_at_any_call() -> None:
    decorated = fluid.dygraph.no_grad(torch.is_grad_enabled)
    for _ in interrupted_at_each_call(decorated):
        assert torch.is_grad_enabled()
    assert not decorated()


def test_a_block_without_gradients_that_is_interrupted_as_it_begins_is_not_begun() -> None:
    block, at, begun = fluid.dygraph.no_grad(), 0, False
    while not begun:
        with interruptible(), InterruptedAt(at):
            try:
                block.__enter__()
                begun = True
            except KeyboardInterrupt:
                assert torch.is_grad_enabled()
        at += 1
    block.__exit__()
    assert torch.is_grad_enabled() and at > 2


def _network() -> tuple[Any, Any]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 8]), 4, act="tanh"))
        fluid.optimizer.SGD(0.01).minimize(loss)
    fluid.Executor().run(startup)
    return main, loss


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_step_that_is_recorded_leaves_no_mode_of_torch_in_force(replicas: int) -> None:
    """Where one begins or ends, and is left halfway, all kernels would go through it for good."""
    executor, feed = fluid.Executor(), {"x": np.ones((4, 8), "float32")}
    places = [fluid.CPUPlace()] * replicas

    def work() -> None:
        main, loss = _network()
        program = fluid.CompiledProgram(main)
        if replicas > 1:
            program = program.with_data_parallel(loss.name, places=places)
        for _ in range(6):
            executor.run(program, feed, [loss])

    work()
    parts = "/kernels/watching.py", "/_python_dispatch.py", "/torch/overrides.py"
    for at in interrupted_at_each_call(work, 7, parts):
        assert not is_watched(), at
    assert at > 100


def test_garbage_is_looked_for_after_ctrl_c_at_any_call() -> None:
    def work() -> None:
        with without_collections():
            assert not gc.isenabled()

    for _ in interrupted_at_each_call(work):
        assert gc.isenabled()


def test_torch_has_its_own_settings_after_ctrl_c_at_any_call() -> None:
    main, _ = _network()
    (op, *_) = [one for one in main.global_block().ops if one.type == "tanh"]
    settings = KernelSettings(native=frozenset({"tanh"}))
    asked = (("onednn", False),)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "settings_for", lambda *_: asked)
        call = KernelChoice(torch.device("cpu"), settings)(op, lambda: None)
    for at in interrupted_at_each_call(call):
        assert torch.backends.mkldnn.enabled, at
        other = threading.Thread(target=under((("onednn", True),), lambda: None), daemon=True)
        other.start()
        other.join(60)
        assert not other.is_alive()
    assert at > 10


def test_what_waits_in_a_step_that_is_recorded_is_interrupted_at_once() -> None:
    work, where = Lingering(), (("nowhere:1",), 0)
    main = fluid.Program()
    with fluid.program_guard(main), fluid.unique_name.guard():
        found = fluid.layers.tanh(fluid.data("x", [1])) * 2.0
        attrs = {"endpoints": list(where[0]), "trainer_id": where[1]}
        main.global_block().append_op("send_barrier", attrs=attrs)
    link: Any = SimpleNamespace(send_barrier=work)
    put_link(where, link)
    executor, feed = fluid.Executor(), {"x": np.ones(1, "float32")}
    ending = threading.Timer(30, work.end)
    try:
        with flags.override({"FLAGS_refluid_tier": "recorded"}), interrupted_in("send_barrier"):
            ending.start()
            executor.run(main, feed, [found])
        assert not work.over
    finally:
        ending.cancel()
        work.end()
        drop_link(where)

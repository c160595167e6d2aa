"""Dense parameters of a server that are larger than a message usually is."""

from __future__ import annotations

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.core import flags
from refluid.pserver import wire
from tests.pserver.jobs import Built, Job, Trainer

WIDE = 40


def network() -> Built:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, WIDE], "float32")
        attr = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.1))
        out = fluid.layers.fc(x, WIDE, param_attr=attr, bias_attr=False)
        loss = fluid.layers.mean(out)
        fluid.optimizer.Adam(0.1).minimize(loss)
    return main, startup, loss


@pytest.mark.parametrize("sync", [True, False])
def test_they_are_pushed_pulled_and_saved(sync: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what Adam keeps; else a trainer asked again and again, and then blamed the server."""
    monkeypatch.setattr(wire, "MOST_BYTES", 1024)

    def train(trainer: Trainer) -> float:
        feed = {"x": np.ones((1, WIDE), "float32")}
        for _ in range(3):
            trainer.step(feed)
        link = trainer.main._servers.link
        link.flush()
        states = link.client.states()[0]
        assert states["w_moment1_0"].shape == (WIDE, WIDE)
        moved: float = link.client.pull()["w"].mean().item()
        return moved

    with flags.override({"FLAGS_rpc_deadline": 2000}):
        (found,) = Job(network, servers=1, trainers=1, sync=sync).run(train)
    assert found < 0.05  # three pushes, or one of three steps

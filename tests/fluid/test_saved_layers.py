"""Programs that were saved for inference, as layers of dygraph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid import dygraph

X = np.random.RandomState(2).rand(6, 5).astype("float32")


def _saved(folder: Path, **how: Any) -> np.ndarray:
    """Saves a network; what it infers."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        x = fluid.data("x", [None, 5])
        hidden = fluid.layers.batch_norm(fluid.layers.fc(x, 8, act="relu"))
        hidden = fluid.layers.dropout(hidden, 0.5, dropout_implementation="upscale_in_train")
        out = fluid.layers.fc(hidden, 2)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        fluid.io.save_inference_model(str(folder), ["x"], [out], exe, **how)
        test = main.clone(for_test=True)
        found: np.ndarray = exe.run(test, feed={"x": X}, fetch_list=[out])[0]
        return found


@pytest.mark.parametrize("files", [{}, {"model_filename": "model", "params_filename": "all"}])
def test_it_infers_as_the_program(tmp_path: Path, files: dict[str, str]) -> None:
    wanted = _saved(tmp_path, **files)
    with dygraph.guard():
        net = dygraph.StaticModelRunner(str(tmp_path), **files)
        net.eval()
        np.testing.assert_array_equal(net(dygraph.to_variable(X)).numpy(), wanted)
        with pytest.raises(ValueError, match=r"takes 1 inputs \(x\), 2 were given"):
            net(X, X)
    with pytest.raises(EnforceNotMet, match="operators run at once"):
        dygraph.StaticModelRunner(str(tmp_path), **files)


def test_it_trains_on(tmp_path: Path) -> None:
    _saved(tmp_path)
    with dygraph.guard():
        net = dygraph.StaticModelRunner(str(tmp_path))
        assert len(net.parameters()) == 6  # without running means
        sgd = fluid.optimizer.SGD(0.05, parameter_list=net.parameters())
        losses = []
        for _ in range(20):
            x = dygraph.to_variable(X)
            x.stop_gradient = False
            loss = fluid.layers.mean(fluid.layers.square(net(x) - 1.0))
            loss.backward()
            assert np.abs(x.gradient()).max() > 0
            sgd.minimize(loss)
            net.clear_gradients()
            losses.append(float(loss))
        assert np.mean(losses[-3:]) < 0.7 * losses[0]
        net.eval()
        first, second = (net(X).numpy() for _ in range(2))
        np.testing.assert_array_equal(first, second)  # nothing is dropped
        net.train()
        assert np.abs(net(X).numpy() - first).max() > 1e-3

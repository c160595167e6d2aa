"""Programs that are quantised in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid import layers
from refluid.fluid.contrib.quantize import QuantizeTranspiler

PLACE = fluid.CPUPlace()


def _batch(random: Any) -> dict[str, Any]:
    label = random.integers(0, 3, (16, 1))
    image = random.normal(size=(16, 1, 8, 8)) * 0.3 + (label - 1).reshape(16, 1, 1, 1)
    return {"x": image.astype("float32"), "label": label}


@pytest.mark.parametrize("kind", ["abs_max", "range_abs_max", "moving_average_abs_max"])
def test_a_network_trains_rounded_and_is_frozen_and_saved(kind: str, tmp_path: Path) -> None:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, label = fluid.data("x", [None, 1, 8, 8]), fluid.data("label", [None, 1], "int64")
        guess = layers.fc(layers.conv2d(x, 4, 3, act="relu"), 3, act="softmax")
        loss = layers.mean(layers.cross_entropy(guess, label))
        fluid.optimizer.Adam(0.01).minimize(loss)
    transpiler = QuantizeTranspiler(activation_quantize_type=kind)
    transpiler.training_transpile(main, startup)
    assert {f"fake_quantize_{kind}", "fake_quantize_abs_max"} <= {
        op.type for op in main.global_block().ops
    }

    exe, scope, random = fluid.Executor(), fluid.Scope(), np.random.default_rng(0)
    with fluid.scope_guard(scope):
        exe.run(startup)
        losses = [exe.run(main, feed=_batch(random), fetch_list=[loss])[0] for _ in range(40)]
        assert np.mean(losses[-5:]) < 0.3 * np.mean(losses[:5])
        test = main.clone(for_test=True)
        batch = _batch(random)
        before = exe.run(test, feed=batch, fetch_list=[guess.name])[0]
        transpiler.freeze_program(test, PLACE)
        frozen = exe.run(test, feed=batch, fetch_list=[guess.name])[0]
        np.testing.assert_allclose(frozen, before, atol=2e-2)
        weights = np.array(scope.find_var("conv2d_0.w_0").get_tensor())
        np.testing.assert_array_equal(weights, weights.round())
        transpiler.convert_to_int8(test, PLACE)
        kept = np.array(scope.find_var("conv2d_0.w_0.int8").get_tensor())
        assert kept.dtype == np.int8
        np.testing.assert_array_equal(kept, weights)
        target = [test.global_block().var(guess.name)]
        fluid.io.save_inference_model(str(tmp_path), ["x"], target, exe, test)
    assert (tmp_path / "conv2d_0.w_0.int8").exists()


def test_other_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="activation_quantize_type"):
        QuantizeTranspiler(activation_quantize_type="mean")

"""Batch normalisations folded by `fluid.InferenceTranspiler`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid


def _built() -> tuple[fluid.Program, Any]:
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 1
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        image = fluid.data("image", [None, 3, 8, 8])
        x = fluid.layers.conv2d(image, 4, 3, bias_attr=False)
        x = fluid.layers.batch_norm(x, act="relu")
        out = fluid.layers.fc(fluid.layers.batch_norm(fluid.layers.conv2d(x, 2, 1)), 3)
    exe = fluid.Executor()
    exe.run(startup)
    feed = {"image": np.random.RandomState(0).rand(4, 3, 8, 8).astype("float32")}
    for _ in range(3):  # statistics other than 0 and 1
        exe.run(main, feed, [out])
    return main, out


def test_programs_and_models_are_folded(tmp_path: Path) -> None:
    exe, feed = fluid.Executor(), {"image": np.ones((2, 3, 8, 8), "float32")}
    with fluid.scope_guard(fluid.Scope()):
        main, out = _built()
        plain = main.clone(for_test=True)
        folded = plain.clone(for_test=True)
        fluid.InferenceTranspiler().transpile(folded, fluid.CPUPlace())
        assert "batch_norm" not in [op.type for op in folded.global_block().ops]
        expected = exe.run(plain, feed, [out])[0]
        found = exe.run(folded, feed, [out.name])[0]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(exe.run(plain, feed, [out])[0], expected)
        fluid.io.save_inference_model(str(tmp_path / "a"), ["image"], [out], exe, main)
        target = folded.global_block().var(out.name)
        fluid.io.save_inference_model(str(tmp_path / "b"), ["image"], [target], exe, folded)
    scope = fluid.Scope()
    for folder in "ab":
        with fluid.scope_guard(scope):
            program, _, fetches = fluid.io.load_inference_model(str(tmp_path / folder), exe)
        if folder == "a":
            fluid.transpiler.InferenceTranspiler().transpile(program, fluid.CPUPlace(), scope)
        assert "batch_norm" not in [op.type for op in program.global_block().ops]
        found = exe.run(program, feed, fetches, scope=scope)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_what_is_no_program_or_scope_is_refused() -> None:
    for given in ((None, None), (fluid.Program(), None, "scope")):
        with pytest.raises(TypeError):
            fluid.InferenceTranspiler().transpile(*given)

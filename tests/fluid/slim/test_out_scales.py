"""Scales of what operators give: followed in training, told to engines by an attribute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid import core, layers
from refluid.fluid.contrib.slim.quantization import (
    OutScaleForInferencePass,
    OutScaleForTrainingPass,
    quantization_pass,
)
from refluid.fluid.framework import IrGraph

RATE = 0.8


def _network() -> tuple[fluid.Program, fluid.Program, Any, Any]:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 1
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 4])
        parts = layers.split(layers.relu(layers.scale(x, 2.0)), 2, dim=1)
        loss = layers.mean(layers.fc(parts[0] * parts[1], 1))
        fluid.optimizer.SGD(0.1).minimize(loss)
    return main, startup, parts, loss


def _graph(program: fluid.Program, for_test: bool = False) -> IrGraph:
    return IrGraph(core.Graph(program.desc), for_test=for_test)


def _watched(program: fluid.Program) -> list[str]:
    ops = program.global_block().ops
    return [one.input("X")[0] for one in ops if one.type == "moving_average_abs_max_scale"]


def test_scales_are_moving_averages_of_the_greatest_magnitudes(tmp_path: Path) -> None:
    main, startup, parts, loss = _network()
    scope, exe = fluid.Scope(), fluid.Executor()
    test = main.clone(for_test=True)
    graph = OutScaleForTrainingPass(scope, fluid.CPUPlace(), RATE).apply(_graph(main))
    train = graph.to_program()
    assert not [name for name in _watched(train) if "GRAD" in name]
    exe.run(startup, scope=scope)
    draw = np.random.default_rng(0)
    state = sums = np.ones(2)
    for _ in range(4):
        x = draw.normal(size=(5, 4)).astype("float32")
        exe.run(train, feed={"x": x}, fetch_list=[loss.name], scope=scope)
        halves = np.maximum(2 * x, 0).reshape(5, 2, 2).max((0, 2))
        sums, state = RATE * sums + halves, RATE * state + 1
    found = [np.array(scope.find_var(f"{part.name}@scale").get_tensor()).item() for part in parts]
    np.testing.assert_allclose(found, sums / state, rtol=1e-6)

    told = OutScaleForInferencePass(scope).apply(_graph(test, for_test=True)).to_program()
    scales = {one.type: one.attr("out_threshold") for one in told.global_block().ops}
    assert scales["split"] == pytest.approx(max(found))
    assert scales["relu"] == pytest.approx(
        np.array(scope.find_var(f"{_watched(train)[0]}@scale").get_tensor()).item()
    )
    assert scales["scale"] is None
    with fluid.scope_guard(scope):
        kept = [told.global_block().var(part.name) for part in parts]
        fluid.io.save_inference_model(str(tmp_path), ["x"], kept, exe, told)
        loaded, *_ = fluid.io.load_inference_model(str(tmp_path), exe)
    ends = {one.type: one.attr("out_threshold") for one in loaded.global_block().ops}
    assert ends["split"] == pytest.approx(max(found))


def test_training_is_as_without() -> None:
    weights = []
    for watched in (False, True):
        main, startup, *_ = _network()
        scope, exe = fluid.Scope(), fluid.Executor()
        if watched:
            made = OutScaleForTrainingPass(scope, fluid.CPUPlace()).apply(_graph(main))
            main = made.to_program()
        exe.run(startup, scope=scope)
        for _ in range(5):
            exe.run(main, feed={"x": np.ones((3, 4), "float32")}, scope=scope)
        weights.append(np.array(scope.find_var("fc_0.w_0").get_tensor()))
    np.testing.assert_array_equal(*weights)


def test_a_graph_for_tests_declares_the_scales_and_changes_none() -> None:
    main, _, parts, _ = _network()
    scope = fluid.Scope()
    graph = _graph(main.clone(for_test=True), for_test=True)
    test = OutScaleForTrainingPass(scope, fluid.CPUPlace()).apply(graph).to_program()
    assert not _watched(test)
    assert test.global_block().var(f"{parts[0].name}@scale").persistable


def test_what_scripts_add_to_the_list_that_they_import_is_watched_too() -> None:
    main, *_ = _network()
    kinds = quantization_pass._out_scale_op_list
    assert isinstance(kinds, list) and {"conv2d", "relu", "split"} <= set(kinds)
    before = OutScaleForTrainingPass(fluid.Scope(), fluid.CPUPlace()).apply(_graph(main))
    kinds.append("scale")
    try:
        after = OutScaleForTrainingPass(fluid.Scope(), fluid.CPUPlace()).apply(_graph(main))
    finally:
        kinds.remove("scale")
    scaled = main.global_block().ops[0].output("Out")
    assert not set(scaled) & set(_watched(before.to_program()))
    assert set(scaled) <= set(_watched(after.to_program()))


def test_what_is_missing_or_wrong_is_told() -> None:
    main, *_ = _network()
    with pytest.raises(ValueError, match="apply OutScaleForTrainingPass, and train"):
        OutScaleForInferencePass(fluid.Scope()).apply(_graph(main, for_test=True))
    with pytest.raises(TypeError, match="IrGraph, not Program"):
        OutScaleForTrainingPass().apply(main)  # type: ignore[arg-type]

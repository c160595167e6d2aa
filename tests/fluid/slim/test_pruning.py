"""Filters are cut out with all that belongs to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.fluid.contrib.slim.graph import GraphWrapper
from refluid.fluid.contrib.slim.graph.channels import CannotPrune, ChannelLinks
from refluid.fluid.contrib.slim.graph.resizing import declare
from refluid.fluid.contrib.slim.prune import StructurePruner
from refluid.fluid.contrib.slim.prune.cutting import choose, cut_values, prunable
from refluid.fluid.contrib.slim.prune.prune_strategy import ratio_for
from tests.fluid.slim.networks import Net, batches, build, compressor, guesses

PRUNER = StructurePruner({"*": 0}, {"*": "l1_norm"})
CONFIG = """
version: 1.0
pruners:
    pruner_1: {{class: StructurePruner, pruning_axis: {{'*': 0}}, criterions: {{'*': l1_norm}}}}
controllers:
    annealing: {{class: SAController, reduce_rate: 0.9, init_temperature: 1.0}}
strategies:
    cut:
        class: {kind}
        pruner: pruner_1
        pruned_params: 'conv.*_weights'
        metric_name: acc
        <<: {{{more}}}
compressor:
    epoch: {epochs}
    checkpoint_path: '{folder}/checkpoints'
    strategies: [cut]
"""


def value(net: Net, name: str) -> Any:
    return np.array(net.scope.find_var(name).get_tensor())


def silence(net: Net, rng: np.random.Generator) -> dict[str, float]:
    """Sets random filters, with what is added after them, to 0; the share of each parameter."""
    ratios = {}
    for name in prunable(GraphWrapper(net.test), "conv.*_weights"):
        if name in ("conv3_weights", "conv4_weights"):  # their channels are those of conv1
            continue
        count = value(net, name).shape[0]
        gone = rng.permutation(count)[: rng.integers(1, count)]
        stem = name.removesuffix("_weights")
        together = [stem, "conv3", "conv4"] if stem == "conv1" else [stem]
        for one in together:
            for kind in ("weights", "scale", "offset"):
                changed = value(net, f"{one}_{kind}")
                changed[gone] = 0
                net.scope.find_var(f"{one}_{kind}").get_tensor().set(changed, fluid.CPUPlace())
        ratios[name] = len(gone) / count
    return ratios


@pytest.mark.parametrize("seed", range(6))
def test_what_says_nothing_is_cut_without_a_difference(seed: int) -> None:
    """Filters of zeros are cut, and the network says the same."""
    net = build()
    ratios = silence(net, np.random.default_rng(seed))
    before = guesses(net.test, net)
    counts = {name: value(net, name).shape[0] for name in ratios}
    graph = GraphWrapper(net.test)
    marks = choose(graph, PRUNER, ratios, net.scope)
    cut_values([graph], marks, PRUNER, net.scope, fluid.CPUPlace())
    declare(graph, marks)
    for name, ratio in ratios.items():
        shape = value(net, name).shape
        assert tuple(graph.var(name).shape()) == shape
        assert shape[0] == round(counts[name] * (1 - ratio))
    np.testing.assert_allclose(guesses(graph.program, net), before, rtol=1e-5, atol=1e-7)


def test_filters_of_the_smallest_norm_go_first() -> None:
    param = np.array([[3.0, 1], [0.5, 0.1], [-2, 2], [0.1, 0.2]])
    assert PRUNER.cal_pruned_idx("any", param, 0.5).tolist() == [3, 1]
    assert PRUNER.cal_pruned_idx("any", param, 0.5, axis=1).tolist() == [1]
    assert len(PRUNER.cal_pruned_idx("any", param, 1.0)) == 3
    assert PRUNER.prune_tensor(param, [3, 1], 0).tolist() == [[3, 1], [-2, 2]]
    assert not PRUNER.prune_tensor(param, [1], 1, lazy=True)[:, 1].any()
    by_name = StructurePruner({"fc*": 1, "*": 0}, {"*": "l1_norm"})
    assert (by_name.axis_of("fc_0.w_0"), by_name.axis_of("conv")) == (1, 0)
    with pytest.raises(ValueError, match="l1_norm is"):
        StructurePruner({"*": 0}, {"*": "geometry"})
    with pytest.raises(ValueError, match="says nothing of 'conv'"):
        StructurePruner({"fc": 0}, {"fc": "l1_norm"}).axis_of("conv")


def test_channels_that_reach_an_unknown_operator_name_it() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        image = fluid.layers.data("image", [3, 8, 8])
        made = fluid.layers.conv2d(image, 4, 3, param_attr=fluid.ParamAttr("first"))
        fluid.layers.shuffle_channel(made, 2)
    with pytest.raises(CannotPrune, match=r"reach operator shuffle_channel.*test_pruning\.py"):
        ChannelLinks(main).with_those("first", 0, [1])


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("UniformPruneStrategy", "start_epoch: 1, target_ratio: 0.4"),
        pytest.param(
            "SensitivePruneStrategy",
            "start_epoch: 1, target_ratio: 0.4, num_steps: 2, delta_rate: 0.3, "
            "sensitivities_file: '{folder}/losses.json'",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "AutoPruneStrategy",
            "controller: annealing, start_epoch: 1, end_epoch: 4, min_ratio: 0.35, max_ratio: 0.5",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_flops_are_cut_as_asked(tmp_path: Path, kind: str, more: str) -> None:
    net = build()
    before = GraphWrapper(net.test).flops()
    settings = {"kind": kind, "epochs": 6, "folder": tmp_path}
    config = CONFIG.format(more=more.format(folder=tmp_path), **settings)
    made = compressor(net, tmp_path, config, prune_infer_model=[["image"], [net.guess]])
    graph = made.run()
    assert graph is not None
    saved = 1 - graph.flops() / before
    assert 0.33 <= saved <= 0.52
    accuracies = made.context.eval_results["acc"]
    assert len(accuracies) == 6 and accuracies[-1] > 0.5
    for name in prunable(graph, "conv.*"):
        assert graph.var(name).shape() == value(net, name).shape
        assert made.context.optimize_graph.var(name).shape() == value(net, name).shape
    if kind.startswith("Sensitive"):
        curves = json.loads((tmp_path / "losses.json").read_text())
        assert set(curves) == set(prunable(graph, "conv.*_weights"))
    model = tmp_path / "checkpoints" / "5" / "eval_model"
    assert sorted(one.name for one in model.iterdir()) == [
        "__model__",
        "__model__.infer",
        "__params__",
    ]
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    with fluid.scope_guard(scope):
        program, feeds, fetches = fluid.io.load_inference_model(
            str(model), exe, "__model__.infer", "__params__"
        )
        (batch,) = batches(1, 5)()
        found = exe.run(program, {feeds[0]: np.stack([one for one, _ in batch])}, fetches)
    np.testing.assert_allclose(found[0], guesses(graph.program, net), rtol=1e-5)


def test_a_second_run_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    settings = {"kind": "UniformPruneStrategy", "folder": tmp_path}
    more = "start_epoch: 1, target_ratio: 0.3"
    net = build()
    first = compressor(net, tmp_path, CONFIG.format(epochs=3, more=more, **settings))
    first.run()
    other = build()
    again = compressor(other, tmp_path, CONFIG.format(epochs=4, more=more, **settings))
    graph = again.run()
    assert graph is not None and len(again.context.eval_results["acc"]) == 4
    assert again.context.eval_results["acc"][:3] == first.context.eval_results["acc"]
    assert graph.flops() == first.context.eval_graph.flops()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("strategies: {a: {class: Nothing}}\ncompressor: {strategies: [a]}", "no class 'Nothing'"),
        ("compressor: {strategies: [b]}", "'b' is not described"),
        (
            "strategies: {a: {class: PruneStrategy, rate: 1}}\ncompressor: {strategies: [a]}",
            "takes no rate",
        ),
        ("others: {}", "section 'others' is none of"),
        ("- 1", "no sections"),
        ("a: [", "is no YAML"),
    ],
)
def test_mistakes_in_the_configuration(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compressor(build(), tmp_path, text)


def test_ratios_of_equal_loss() -> None:
    curve = {0.25: 0.0, 0.5: 0.2, 0.75: 0.1}
    found = [ratio_for(curve, loss) for loss in (0.0, 0.1, 0.2, 1.0)]
    assert found == sorted(found) and found[0] == 0.0 and found[-1] == 0.75
    assert 0.25 < found[1] < 0.5

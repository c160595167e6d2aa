"""Passes by strategy: which are applied, what the log says, what is written down."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.engine.pipeline import FUSING, PASSES, rewrite
from refluid.engine.setting import Setting
from refluid.engine.strategy import BUILD, DEFAULT, Strategy
from refluid.ir.dot import print_dot
from tests.passes.networks import Network, norm, types

layers = fluid.layers


def network() -> Network:
    return Network(lambda x: norm(layers.conv2d(x, 3, 3, padding=1, act="relu"), act="relu"))


def strategy(**options: Any) -> fluid.BuildStrategy:
    build = fluid.BuildStrategy()
    for name, value in options.items():
        setattr(build, name, value)
    return build


def compiled_losses(net: Network, build: fluid.BuildStrategy, fetches: list[str]) -> list[Any]:
    scope = fluid.Scope()
    for name, value in net.start.items():
        scope.var(name).value = value.clone()
    program = fluid.CompiledProgram(net.main).with_data_parallel(
        loss_name=net.loss, build_strategy=build, places=[fluid.CPUPlace()]
    )
    executor = fluid.Executor(fluid.CPUPlace())
    found = []
    with fluid.scope_guard(scope):
        for image, label in net.batches():
            feed = {"image": image, "label": label}
            found.append([float(v.ravel()[0]) for v in executor.run(program, feed, fetches)])
    return found


def test_a_pass_runs_where_its_option_is_set() -> None:
    main = network().main
    (plain,) = rewrite(main, [Setting()])
    assert "fuse_bn_act_ops" not in plain.reports
    assert plain.reports["fuse_conv_bias"].made == ["conv2d", "conv2d_grad"]
    strategy = Strategy(fuse_bn_act_ops=True)
    (asked,) = rewrite(main, [Setting(strategy, as_written=True)])
    assert set(asked.reports) == {"fuse_bn_act_ops"}
    assert "fused_batch_norm_act" in types(asked.program)


def test_a_program_with_nothing_to_fuse_is_left_as_it_is() -> None:
    startup = network().startup
    assert rewrite(startup, [Setting()])[0].program is startup


def test_the_options_that_ask_for_passes() -> None:
    quiet = replace(DEFAULT, **{name: False for name in BUILD if name.startswith("fuse_")})
    for one in FUSING:
        assert not one.wanted(Setting(quiet, as_written=True))
        asking = [
            name
            for name, knob in BUILD.items()
            if knob.kinds == (bool,)
            and one.wanted(Setting(replace(quiet, **{name: True}), as_written=True, replicas=2))
        ]
        assert len(asking) == 1 or one.wanted(Setting(inference=True)), one.name
    assert len({one.name for one in PASSES}) == len(PASSES)


def test_strategies_leave_the_losses_alone() -> None:
    net = network()
    plain = compiled_losses(net, strategy(), [net.loss])
    fused = strategy(
        fuse_bn_act_ops=True,
        fuse_elewise_add_act_ops=True,
        fuse_gemm_epilogue=True,
        enable_auto_fusion=True,
    )
    np.testing.assert_allclose(compiled_losses(net, fused, [net.loss]), plain, rtol=1e-5)


def test_what_a_fusion_would_remove_can_be_fetched() -> None:
    net = network()
    (norm_out,) = [
        op.output("Y")[0] for op in net.main.global_block().ops if op.type == "batch_norm"
    ]
    fused = strategy(fuse_bn_act_ops=True)
    values = compiled_losses(net, fused, [net.loss, norm_out])
    plain = compiled_losses(net, strategy(), [net.loss, norm_out])
    np.testing.assert_allclose(values, plain, rtol=1e-5, atol=1e-6)
    executor, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    for name, value in net.start.items():
        scope.var(name).value = value.clone()
    image, label = net.batches()[0]
    feed = {"image": image, "label": label}
    for name in ("conv2d_0.tmp_0", "conv2d_0.tmp_1"):
        (found,) = executor.run(net.main, feed, [name], scope=scope)
        assert found.shape == (4, 3, 6, 6)


def test_the_log_tells_what_was_fused(caplog: pytest.LogCaptureFixture) -> None:
    net = network()
    build = strategy(fuse_bn_act_ops=True, fuse_all_optimizer_ops=True, cache_runtime_context=True)
    with caplog.at_level(logging.WARNING, logger="refluid"):
        compiled_losses(net, build, [net.loss])
    assert "---  detected 4 subgraphs" in caplog.messages
    updates = sum(op.type == "sgd" for op in net.main.global_block().ops)
    assert (
        f"Find sgd operators : {updates}, and {updates} for dense gradients. To make the speed "
        "faster, those optimization are fused during training." in caplog.messages
    )
    unused = [line for line in caplog.messages if "has no effect here" in line]
    assert unused == [
        "BuildStrategy.cache_runtime_context has no effect here: "
        f"{BUILD['cache_runtime_context'].ignored}."
    ]


def test_graphs_are_written(tmp_path: Path) -> None:
    net = network()
    build = strategy(fuse_bn_act_ops=True, debug_graphviz_path=str(tmp_path / "g"))
    compiled_losses(net, build, [net.loss])
    before = (tmp_path / "g_original_graph").read_text()
    after = (tmp_path / "g_fused_graph").read_text()
    assert before == print_dot(net.main, "original")
    assert "fused_batch_norm_act" in after
    assert "fused_batch_norm_act" not in before


def test_a_graph_has_a_node_for_each_write() -> None:
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
        x = layers.fill_constant([1], "float32", 1.0)
        layers.increment(x)
    text = print_dot(program)
    name = x.name
    assert text.startswith('digraph "program" {')
    assert f'o0_0 -> "v0_{name}_1";' in text
    assert f'"v0_{name}_1" -> o0_1;' in text
    assert f'o0_1 -> "v0_{name}_2";' in text

"""Fusing passes: what each makes of a program's text, equal numbers, where it must not fire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import refluid.ops  # noqa: F401
from refluid import fluid
from refluid.analysis.verifier import verify
from refluid.engine.pipeline import FUSING
from refluid.ir.text import print_op
from tests.passes.networks import Build, Network, attention, conv, depthwise, norm, types
from tests.passes.rewriting import passed

OTHERS = {"forward_only", "sync_batch_norm"}  # which change what is computed
EVERY = [one.name for one in FUSING if one.name not in OTHERS]

layers = fluid.layers


@dataclass(frozen=True)
class Fusion:
    """A pass, a network for it, and operators: those that go and those that come for them."""

    name: str
    build: Build
    removed: str
    added: str


def _residual(image: Any) -> Any:
    return layers.elementwise_add(image, norm(image), act="relu")


def _residual_first(image: Any) -> Any:
    return layers.elementwise_add(norm(image), image, act="relu")


def _beside(image: Any) -> Any:
    return layers.elementwise_add(conv(image), depthwise(layers.relu(image)))


def _matmul(image: Any) -> Any:
    weights = layers.create_parameter([6, 4], "float32")
    bias = layers.create_parameter([4], "float32", is_bias=True)
    return layers.elementwise_add(layers.matmul(image, weights), bias, act="sigmoid")


def _unmasked(image: Any) -> Any:
    queries = layers.fc(image, 6, num_flatten_dims=3, bias_attr=False)
    weights = layers.softmax(layers.matmul(queries, image, transpose_y=True))
    return layers.matmul(weights, layers.scale(image, 0.5))


def _both(*names: str) -> str:
    return " ".join([*names, *(f"{name}_grad" for name in reversed(names))])


FUSIONS = [
    Fusion(
        "fuse_conv_bias",
        lambda x: conv(conv(x, act="relu")),
        _both("elementwise_add", "elementwise_add"),
        "",
    ),
    Fusion(
        "fuse_conv_bias",
        lambda x: conv(conv(x), groups=3, use_cudnn=False),
        _both("elementwise_add", "elementwise_add"),
        "",
    ),
    Fusion(
        "fuse_gemm_bias",
        lambda x: layers.fc(x, 7, act="tanh"),
        _both("mul", "elementwise_add"),
        _both("fused_gemm_epilogue"),
    ),
    Fusion(
        "fuse_gemm_epilogue",
        lambda x: layers.fc(layers.fc(x, 7, act="tanh", num_flatten_dims=3), 6, act="relu"),
        _both("mul", "elementwise_add", "tanh", "mul", "elementwise_add", "relu"),
        _both("fused_gemm_epilogue", "fused_gemm_epilogue"),
    ),
    Fusion(
        "fuse_gemm_epilogue",
        _matmul,
        _both("matmul", "elementwise_add", "sigmoid"),
        _both("fused_gemm_epilogue"),
    ),
    Fusion(
        "fuse_elewise_add_act_ops",
        lambda x: layers.elementwise_add(conv(x, act="sigmoid"), conv(x), act="relu"),
        "elementwise_add sigmoid elementwise_add relu",
        "fused_elemwise_activation fused_elemwise_activation",
    ),
    Fusion(
        "fuse_bn_act_ops",
        lambda x: norm(norm(x, act="relu"), act="tanh", data_layout="NHWC"),
        _both("batch_norm", "relu", "batch_norm", "tanh"),
        _both("fused_batch_norm_act", "fused_batch_norm_act"),
    ),
    Fusion(
        "fuse_bn_act_ops",
        lambda x: norm(x, act="relu", use_global_stats=True),
        _both("batch_norm", "relu"),
        _both("fused_batch_norm_act"),
    ),
    Fusion(
        "fuse_bn_add_act_ops",
        lambda x: _residual(_residual_first(conv(x))),
        "batch_norm elementwise_add relu batch_norm elementwise_add relu "
        "relu_grad elementwise_add_grad relu_grad elementwise_add_grad",
        "fused_bn_add_activation fused_bn_add_activation "
        "fused_elemwise_activation_grad fused_elemwise_activation_grad",
    ),
    Fusion(
        "fuse_relu_depthwise_conv",
        lambda x: _beside(conv(x)),
        _both("relu"),
        "",
    ),
    Fusion(
        "fuse_softmax_cross_entropy",
        lambda x: x,
        "softmax cross_entropy2 cross_entropy_grad2 softmax_grad",
        _both("softmax_with_cross_entropy"),
    ),
    Fusion(
        "fuse_squared_norm",
        lambda x: layers.elementwise_add(conv(x), layers.reduce_sum(layers.square(norm(x)))),
        _both("square", "reduce_sum"),
        _both("squared_l2_norm"),
    ),
    Fusion(
        "fuse_attention",
        attention,
        _both("matmul", "elementwise_add", "softmax", "matmul"),
        _both("attention_of_heads"),
    ),
    Fusion(
        "fuse_attention",
        lambda x: _unmasked(attention(x, drop=0.0)),
        _both(*("matmul", "elementwise_add", "softmax", "dropout", "matmul"))
        + " "
        + _both("matmul", "softmax", "matmul"),
        _both("attention_of_heads", "attention_of_heads"),
    ),
]


@pytest.mark.parametrize("fusion", FUSIONS, ids=lambda one: one.name)
def test_operators_before_and_after(fusion: Fusion) -> None:
    network = Network(fusion.build)
    before = types(network.main)
    done = passed(network.main, fusion.name)
    expected = list(before)
    for kind in fusion.removed.split():
        expected.remove(kind)
    assert sorted(types(done.program)) == sorted(expected + fusion.added.split())
    assert types(network.main) == before
    assert not verify(done.program, feeds=["image", "label"])


@pytest.mark.parametrize("fusion", FUSIONS, ids=lambda one: one.name)
def test_numbers_are_equal(fusion: Fusion) -> None:
    network = Network(fusion.build)
    done = passed(network.main, fusion.name)
    (expected, before), (found, after) = network.run(network.main), network.run(done.program)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for name, value in before.items():
        np.testing.assert_allclose(after[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_numbers_are_equal_with_all_passes() -> None:
    network = Network(
        lambda x: layers.fc(depthwise(layers.relu(_residual(conv(x)))), 6, act="relu")
    )
    done = passed(network.main, *EVERY)
    assert {"conv2d", "fused_bn_add_activation", "fused_gemm_epilogue"} <= set(types(done.program))
    np.testing.assert_allclose(network.run(done.program)[0], network.run(network.main)[0], 1e-5)


def test_text_of_a_fused_pair() -> None:
    network = Network(lambda x: layers.fc(x, 7, act="relu"))
    program = passed(network.main, "fuse_gemm_epilogue").program
    lines = [print_op(op, brief=True) for op in program.global_block().ops]
    assert [line for line in lines if "fused" in line] == [
        "fused_gemm_epilogue(X=image, Y=fc_0.w_0, Bias=fc_0.b_0) -> Out=fc_0.tmp_2 "
        '{activation="relu"}',
        "fused_gemm_epilogue_grad(X=image, Y=fc_0.w_0, Bias=fc_0.b_0, Out=fc_0.tmp_2, "
        "Out@GRAD=fc_0.tmp_2@GRAD) -> Y@GRAD=fc_0.w_0@GRAD, Bias@GRAD=fc_0.b_0@GRAD "
        '{activation="relu"}',
    ]


def test_what_is_kept_stays_computed() -> None:
    network = Network(lambda x: layers.fc(x, 7, act="relu"))
    for name, left in (("fc_0.tmp_0", 0), ("fc_0.tmp_1", 1), ("fc_0.tmp_2", 1)):
        done = passed(network.main, "fuse_gemm_epilogue", kept=[name])
        assert types(done.program).count("fused_gemm_epilogue") == left, name
        assert name in {n for op in done.program.global_block().ops for n in op.output_arg_names}


def test_a_program_without_gradients_is_fused_too() -> None:
    network = Network(lambda x: norm(conv(x, act="relu"), act="relu"), train=False)
    found = types(passed(network.main.clone(for_test=True), *EVERY).program)
    assert found[0] == "conv2d"
    assert "fused_batch_norm_act" in found
    assert not {"batch_norm", "softmax"} & set(found)


def test_an_input_that_is_overwritten_in_between_stops_a_rule() -> None:
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
        image = fluid.data("image", [None, 3, 6, 6])
        x = layers.scale(image, 2.0)
        plain = conv(x, bias_attr=False)
        layers.assign(image, x)
        bias = layers.create_parameter([3], "float32", is_bias=True)
        layers.elementwise_add(plain, bias, axis=1)
    done = passed(program, "fuse_conv_bias")
    (refused,) = done.reports["fuse_conv_bias"].refused
    assert "in between" in refused.reason


def test_blocks_of_loops_are_fused_too() -> None:
    program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(program, startup), fluid.unique_name.guard():
        x = fluid.data("x", [4, 3])
        count = layers.fill_constant([1], "int64", 0)
        limit = layers.fill_constant([1], "int64", 3)
        total = layers.fill_constant([4, 3], "float32", 0.0)
        more = layers.less_than(count, limit)
        loop = layers.While(more)
        with loop.block():
            step = layers.fc(layers.elementwise_add(x, total), 3, act="tanh")
            layers.assign(step, total)
            layers.increment(count, in_place=True)
            layers.less_than(count, limit, cond=more)
    done = passed(program, "fuse_gemm_epilogue")
    found = [op.type for op in done.program.blocks[1].ops]
    assert "fused_gemm_epilogue" in found
    assert "tanh" not in found
    executor, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    feed = {"x": np.ones((4, 3), np.float32)}
    with fluid.scope_guard(scope):
        executor.run(startup)
        (fused,) = executor.run(done.program, feed, [total.name])
        (plain,) = executor.run(program, feed, [total.name])
    np.testing.assert_allclose(fused, plain, rtol=1e-6)

"""Casts inserted into forward programs, and float16 replaced on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.analysis.verifier import verify
from refluid.core.dtypes import VarType
from refluid.engine.pipeline import rewrite
from refluid.engine.setting import Setting
from refluid.fluid.contrib.mixed_precision import AutoMixedPrecisionLists
from refluid.passes.mixed_precision import HalfPrecision, describe_half, mixed_precision

layers = fluid.layers


def program(build: Callable[[], Any]) -> fluid.Program:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        build()
    return main


def mixed(
    build: Callable[[], Any], lists: AutoMixedPrecisionLists | None = None
) -> tuple[fluid.Program, fluid.Program]:
    before = program(build)
    lists = lists or AutoMixedPrecisionLists()
    names = frozenset(lists.black_varnames)
    after = before.clone()
    mixed_precision(after, HalfPrecision(VarType.FP16, lists.classify, names))
    assert verify(after) == []
    return before, after


def placed(program: fluid.Program, device: torch.device) -> fluid.Program:
    return rewrite(program, [Setting(device=device, as_written=True)])[0].program


def lines(program: fluid.Program) -> list[str]:
    return [
        f"{op.type}({', '.join(op.input_arg_names)}) -> {', '.join(op.output_arg_names)}"
        for op in program.global_block().ops
    ]


def classifier() -> None:
    x = fluid.data("x", [None, 8])
    layers.softmax(layers.fc(x, 4, act="relu"))


def test_products_get_casts_and_softmax_is_full() -> None:
    before, after = mixed(classifier)
    assert lines(before) == [
        "mul(x, fc_0.w_0) -> fc_0.tmp_0",
        "elementwise_add(fc_0.tmp_0, fc_0.b_0) -> fc_0.tmp_1",
        "relu(fc_0.tmp_1) -> fc_0.tmp_2",
        "softmax(fc_0.tmp_2) -> softmax_0.tmp_0",
    ]
    assert lines(after) == [
        "cast(x) -> x.cast_fp16",
        "cast(fc_0.w_0) -> fc_0.w_0.cast_fp16",
        "mul(x.cast_fp16, fc_0.w_0.cast_fp16) -> fc_0.tmp_0",
        "cast(fc_0.b_0) -> fc_0.b_0.cast_fp16",
        "elementwise_add(fc_0.tmp_0, fc_0.b_0.cast_fp16) -> fc_0.tmp_1",
        "relu(fc_0.tmp_1) -> fc_0.tmp_2",
        "cast(fc_0.tmp_2) -> fc_0.tmp_2.cast_fp32",
        "softmax(fc_0.tmp_2.cast_fp32) -> softmax_0.tmp_0",
    ]
    block = after.global_block()
    assert block.var("fc_0.tmp_2").dtype == VarType.FP16
    assert block.var("softmax_0.tmp_0").dtype == VarType.FP32
    assert block.var("fc_0.w_0").dtype == VarType.FP32


def test_what_is_used_twice_is_cast_once() -> None:
    def build() -> None:
        x = fluid.data("x", [None, 8])
        layers.fc(x, 4, bias_attr=False)
        layers.fc(x, 4, bias_attr=False)

    _, after = mixed(build)
    assert lines(after).count("cast(x) -> x.cast_fp16") == 1


def test_promotion_stays_full_beside_a_full_activation() -> None:
    def build() -> None:
        x = fluid.data("x", [None, 8])
        layers.elementwise_add(x, layers.fc(x, 8, bias_attr=False))

    _, after = mixed(build)
    assert lines(after)[-2:] == [
        "cast(fc_0.tmp_0) -> fc_0.tmp_0.cast_fp32",
        "elementwise_add(x, fc_0.tmp_0.cast_fp32) -> elementwise_add_0.tmp_0",
    ]


def test_batch_norm_is_half_with_full_statistics() -> None:
    def build() -> None:
        image = fluid.data("image", [None, 3, 8, 8])
        layers.batch_norm(layers.conv2d(image, 4, 3, bias_attr=False))

    _, after = mixed(build)
    (norm,) = [op for op in after.global_block().ops if op.type == "batch_norm"]
    kinds = {slot: after.global_block().var(norm.input(slot)[0]).dtype for slot in ("X", "Scale")}
    assert kinds == {"X": VarType.FP16, "Scale": VarType.FP32}
    assert after.global_block().var(norm.output("Y")[0]).dtype == VarType.FP16


@pytest.mark.parametrize(
    "lists",
    [
        AutoMixedPrecisionLists(custom_black_list={"mul"}),
        AutoMixedPrecisionLists(custom_black_varnames={"fc_0.w_0"}),
    ],
)
def test_black_lists_leave_the_program(lists: AutoMixedPrecisionLists) -> None:
    before, after = mixed(classifier, lists)
    assert lines(after) == lines(before)


def test_white_list_adds_operators() -> None:
    _, after = mixed(classifier, AutoMixedPrecisionLists(custom_white_list={"softmax"}))
    assert lines(after)[-1] == "softmax(fc_0.tmp_2) -> softmax_0.tmp_0"


def test_what_a_branch_reads_stays_full() -> None:
    def build() -> None:
        x = fluid.data("x", [None, 8])
        hidden = layers.fc(x, 4, bias_attr=False)
        larger = layers.less_than(layers.mean(x), layers.mean(x * 2.0))
        layers.cond(larger, lambda: hidden * 2.0, lambda: hidden * 3.0)

    before, after = mixed(build)
    assert lines(after) == lines(before)


def test_blocks_that_nobody_runs_do_not_matter() -> None:
    before = program(classifier)
    inner = before.create_block(0)
    before.rollback()
    inner.append_op(
        type="relu", inputs={"X": "fc_0.tmp_0"}, outputs={"Out": inner.create_var(name="unused")}
    )
    after = before.clone()
    mixed_precision(after, HalfPrecision(VarType.FP16, AutoMixedPrecisionLists().classify))
    assert "cast(x) -> x.cast_fp16" in lines(after)


def test_an_overwritten_input_is_cast_at_each_use() -> None:
    def build() -> None:
        x = layers.scale(fluid.data("x", [None, 8]), 2.0)
        layers.fc(x, 8, bias_attr=False)
        layers.increment(x)
        layers.fc(x, 8, bias_attr=False)

    _, after = mixed(build)
    casts = [op for op in after.global_block().ops if op.type == "cast"]
    assert [op.input("X")[0] for op in casts].count("scale_0.tmp_0") == 2
    assert len({name for op in casts for name in op.output("Out")}) == len(casts)


def test_integers_and_doubles_are_left() -> None:
    def build() -> None:
        x = fluid.data("x", [None, 8], "float64")
        layers.matmul(x, x, transpose_y=True)
        layers.embedding(fluid.data("ids", [None, 1], "int64"), [5, 4])

    before, after = mixed(build)
    assert lines(after) == lines(before)


def test_overlapping_lists_are_an_error() -> None:
    with pytest.raises(ValueError, match="overlap"):
        AutoMixedPrecisionLists({"relu"}, {"relu"})


def test_only_halves_are_half() -> None:
    assert describe_half(VarType.BF16) == "bfloat16"
    with pytest.raises(ValueError, match="float16 or bfloat16"):
        describe_half(VarType.FP32)


def test_cpu_computes_in_bfloat16() -> None:
    before, after = mixed(classifier)
    cpu, gpu = torch.device("cpu"), torch.device("cuda", 0)
    assert placed(before, cpu) is before
    assert placed(after, gpu) is after
    found = placed(after, cpu)
    assert {var.dtype for var in found.list_vars()} == {VarType.FP32, VarType.BF16}
    assert {op.attr("out_dtype") for op in found.global_block().ops if op.type == "cast"} == {
        int(VarType.BF16),
        int(VarType.FP32),
    }
    assert VarType.FP16 in {var.dtype for var in after.list_vars()}


def test_casts_of_users_stay_float16() -> None:
    def build() -> None:
        layers.cast(fluid.data("x", [None, 8]), "float16")

    made = program(build)
    assert placed(made, torch.device("cpu")) is made
    (found,) = fluid.Executor().run(
        made, feed={"x": np.ones((1, 8), "float32")}, fetch_list=["cast_0.tmp_0"]
    )
    assert found.dtype == np.float16

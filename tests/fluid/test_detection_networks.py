"""The losses of SSD and YOLOv3 append the operators that are in the recorded networks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refluid import fluid
from refluid.core import names
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from tests.fluid.recorded_training import count_names_from, facts, read_program, training_programs
from tests.golden import GOLDEN, needs_golden

Network = Callable[[list[Operator], Callable[[str], Variable]], Any]


def _only(ops: list[Operator], op_type: str) -> Operator:
    return next(op for op in ops if op.type == op_type)


def _ssd_loss(ops: list[Operator], var: Callable[[str], Variable]) -> None:
    match, mined = _only(ops, "bipartite_match"), _only(ops, "mine_hard_examples")
    overlap, coded = _only(ops, "iou_similarity"), _only(ops, "box_coder")
    difference = _only(ops, "smooth_l1_loss").input("X")
    location = next(op for op in ops if op.output("Out") == difference)
    fluid.layers.ssd_loss(
        location=var(location.input("X")[0]),
        confidence=var(_only(ops, "shape").input("Input")[0]),
        gt_box=var(overlap.input("X")[0]),
        gt_label=var(_only(ops, "reshape2").input("X")[0]),
        prior_box=var(overlap.input("Y")[0]),
        prior_box_var=var(coded.input("PriorBoxVar")[0]),
        overlap_threshold=match.attr("dist_threshold"),
        neg_overlap=mined.attr("neg_dist_threshold"),
    )


def _yolov3_losses(ops: list[Operator], var: Callable[[str], Variable]) -> None:
    for op in ops:
        x, box, label, score = (
            var(op.input(slot)[0]) for slot in ("X", "GTBox", "GTLabel", "GTScore")
        )
        fluid.layers.yolov3_loss(
            x,
            box,
            label,
            gt_score=score,
            name=op.output("Loss")[0].split(".")[0],
            **{
                name: op.attr(name)
                for name in ("anchors", "anchor_mask", "class_num", "ignore_thresh")
            },
            downsample_ratio=op.attr("downsample_ratio"),
        )


def _of_ssd(ops: list[Operator]) -> list[Operator]:
    kinds = [op.type for op in ops]
    return ops[kinds.index("iou_similarity") - 1 : kinds.index("elementwise_div") + 1]


def _of_yolov3(ops: list[Operator]) -> list[Operator]:
    return [op for op in ops if op.type == "yolov3_loss"]


NETWORKS = {
    "mobilenet_ssd": (_of_ssd, _ssd_loss),
    "ppdet_blazeface": (_of_ssd, _ssd_loss),
    "ppdet_ssd_vgg16": (_of_ssd, _ssd_loss),
    "ppdet_yolov3_mobilenet": (_of_yolov3, _yolov3_losses),
    "yolov3": (_of_yolov3, _yolov3_losses),
}


@needs_golden
@pytest.mark.parametrize("model", NETWORKS)
def test_loss_is_as_recorded(model: str) -> None:
    choose, network = NETWORKS[model]
    path: Path = training_programs(GOLDEN / "zoo" / model)[0]
    recorded = read_program(path).global_block()
    ops = choose(recorded.ops)
    main, startup = Program(), Program()
    block = main.global_block()

    def var(name: str) -> Variable:
        return block.vars.get(name) or block.add_var(recorded.vars[name].copy_to(block))

    with names.guard(), fluid.program_guard(main, startup):
        made = {name for op in ops for name in op.output_arg_names}
        inputs = {name for op in ops for name in op.input_arg_names} - made
        count_names_from(ops, inputs)
        network(ops, var)
    assert [facts(op) for op in block.ops] == [facts(op) for op in ops]

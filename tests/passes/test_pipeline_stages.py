"""What each stage of a pipeline runs of a program."""

from __future__ import annotations

from refluid.passes.pipeline_placing import Placing
from refluid.passes.pipeline_stages import cut
from tests.collective.pipelines import OPTIMIZERS, built, chain


def test_what_each_stage_runs() -> None:
    main, _, _ = built(lambda: chain(2), lambda loss: OPTIMIZERS["sgd"]().minimize(loss))
    first, second = (cut(main, number, Placing(main), 4.0) for number in range(2))
    assert [op.type for op in second.passes.global_block().ops] == [
        *("mul", "elementwise_add", "relu"),
        *("mul", "elementwise_add", "softmax_with_cross_entropy", "mean", "pause"),
        *("fill_constant", "mean_grad", "softmax_with_cross_entropy_grad"),
        *("elementwise_add_grad", "mul_grad", "relu_grad", "elementwise_add_grad", "mul_grad"),
    ]
    start = second.passes.global_block().ops[8]
    assert start.attr("value") == 0.25
    assert first.forward.goes == {1: ("fc_0.tmp_4",)} == {1: second.forward.comes[0]}
    assert second.backward.goes == {0: ("fc_0.tmp_4@GRAD",)} == {0: first.backward.comes[1]}
    pause = next(op for op in first.passes.global_block().ops if op.type == "pause")
    assert (pause.input("X"), pause.output("Out")) == (["fc_0.tmp_4"], ["fc_0.tmp_4@GRAD"])
    assert "table@GRAD" in first.gradients and "fc_2.w_0@GRAD" in second.gradients

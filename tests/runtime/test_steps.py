"""Steps as values."""

from __future__ import annotations

from refluid.runtime.steps import Call, If
from refluid.runtime.trees import Known, Name, method

ONE, OTHER, MADE = Name("v1"), Name("z1"), Name("v2")


def test_a_renamed_step_overwrites_what_it_is_given() -> None:
    step = Call(MADE, Known("relu_"), (ONE,), changes=frozenset({ONE}))
    block = If(method(ONE, "item"), body=[step])
    names = {ONE: OTHER, MADE: Name("z2")}
    for renamed in (step.renamed(lambda one: names.get(one, one)), *block.renamed(
        lambda one: names.get(one, one)
    ).inner):  # fmt: skip
        assert renamed.overwrites == {OTHER}
        assert renamed.reads == {OTHER} and renamed.writes == {"z2"}
    constant = step.renamed(lambda one: Known("k1") if one is ONE else one)
    assert not constant.overwrites and constant.known == {"relu_", "k1"}

"""The verifier: each rule finds its mistake, and leaves the nearest correct program alone."""

from __future__ import annotations

import numpy as np
import pytest

import refluid.ops  # noqa: F401
from refluid.analysis.verifier import RULES, check, verify
from refluid.core.errors import EnforceNotMet
from refluid.ir.parse import parse_program
from refluid.ir.program import Program
from tests.golden import needs_golden, recorded_programs, telling_programs

HEAD = """program
block 0 parent=-1
  var x: float32[-1, 4] check_feed
  var label: float32[-1, 1]
  param w: float32[4, 2]
  var a: float32[-1, 2]
  var b: float32[-1, 2]
  var a@GRAD: float32[-1, 2]
  var b@GRAD: float32[-1, 2]
"""
MUL = "mul(X=x, Y=w) -> Out=a\n"

# Rule, a program that breaks it, what the message says, the nearest correct program.
CASES = [
    ("unknown operator", "mull(X=x) -> Out=a", "no operator of this type", "relu(X=a) -> Out=b"),
    ("slots", "relu(In=a, X=a) -> Out=b", "no input 'In'", "relu(X=a, In=[]) -> Out=b"),
    ("slots", "relu() -> Out=b", "input 'X' is missing", "relu(X=a) -> Out=b"),
    ("slots", "relu(X=[a, x]) -> Out=b", "takes one", "sum(X=[a, a]) -> Out=b"),
    (
        "attributes",
        "mul(X=x, Y=w) -> Out=b {x_num_col_dims=1.0}",
        "'x_num_col_dims' is a INT, but 1.0 is stored as FLOAT",
        "mul(X=x, Y=w) -> Out=b {x_num_col_dims=1}",
    ),
    ("declared", "relu(X=c) -> Out=b", "'c' is declared in no block", "relu(X=x) -> Out=b"),
    ("declared", "relu(X=a) -> Out=c", "output variable 'c'", "relu(X=a) -> Out=b"),
    ("read before written", "relu(X=b) -> Out=a", "'b' before any", "relu(X=a) -> Out=b"),
    ("duplicate outputs", "top_k(X=a) -> Out=b, Indices=b {k=1}", "'b' 2 times", ""),
    (
        "sub-blocks",
        "relu(X=a) -> Out=b {sub_block=@2}\nblock 1 parent=0\nblock 2 parent=1",
        "is block 2 inside block 1, but the operator is in block 0",
        "relu(X=a) -> Out=b {sub_block=@1}\nblock 1 parent=0\nblock 2 parent=1",
    ),
    (
        "gradient without forward",
        "relu(X=a) -> Out=a@GRAD\nrelu_grad(Out=b, Out@GRAD=a@GRAD) -> X@GRAD=b@GRAD",
        "no operator relu of the program",
        "relu(X=b) -> Out=a@GRAD\nrelu_grad(Out=b, Out@GRAD=a@GRAD) -> X@GRAD=b@GRAD",
    ),
]


def _rules(text: str) -> dict[str, str]:
    return {problem.rule: problem.message for problem in verify(parse_program(HEAD + MUL + text))}


@pytest.mark.parametrize(("rule", "wrong", "message", "right"), CASES)
def test_rule_finds_its_mistake_only(rule: str, wrong: str, message: str, right: str) -> None:
    found = _rules(wrong)
    assert message in found[rule]
    assert rule not in _rules(right)


def test_every_rule_has_a_case() -> None:
    assert {case[0] for case in CASES} == set(RULES)


def test_fed_variables_count_as_written() -> None:
    program = parse_program(HEAD + "relu(X=label) -> Out=b")
    assert [problem.rule for problem in verify(program)] == ["read before written"]
    assert verify(program, feeds=["label"]) == []


def test_blocks_of_another_program_are_found() -> None:
    program = parse_program(HEAD + MUL + "relu(X=a) -> Out=b")
    program.global_block().ops[1].set_attr("sub_block", Program().global_block())
    assert "another program" in {p.rule: p.message for p in verify(program)}["sub-blocks"]


def test_inner_blocks_see_outer_variables_and_later_rounds() -> None:
    text = """relu(X=a) -> Out=b {sub_block=@1}
block 1 parent=0
  var inner: float32[-1, 2]
  relu(X=label) -> Out=inner
  relu(X=inner) -> Out=label
"""
    assert "read before written" not in _rules(text)
    assert "read before written" in _rules(text.replace("Out=label", "Out=inner"))


def test_check_names_operator_and_user_line() -> None:
    stack = 'op_callstack=["  File \\"train.py\\", line 3, in <module>"]'
    program = parse_program(HEAD + MUL + f"relu(X=missing) -> Out=b {{{stack}}}")
    with pytest.raises(EnforceNotMet) as error:
        check(program)
    assert "block 0, operator 1 (relu): its input variable 'missing'" in str(error.value)
    assert 'File "train.py", line 3' in str(error.value)
    check(parse_program(HEAD + MUL))


@needs_golden
@pytest.mark.parametrize("most", ["telling", pytest.param("all", marks=pytest.mark.slow)])
def test_recorded_programs_have_no_problem_but_unknown_operators(most: str) -> None:
    recorded = recorded_programs()
    for path in telling_programs() if most == "telling" else recorded:
        if path.parent.parent.name != "zoo":
            continue  # without the steps that tell what is fed
        program = Program.parse_from_string(recorded[path])
        with np.load(path.parent / "steps.npz") as steps:
            feeds = {name.split(".", 2)[2] for name in steps.files if ".feed." in name}
        problems = [p for p in verify(program, feeds=feeds) if p.rule != "unknown operator"]
        assert problems == [], path

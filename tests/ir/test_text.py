"""The text form prints, and parses back to an equal program."""

import pytest

import refluid.ops  # noqa: F401
from refluid.core.errors import EnforceNotMet
from refluid.ir.attributes import AttrType, float32
from refluid.ir.desc import encode_program
from refluid.ir.parse import parse_program
from refluid.ir.program import Program
from refluid.ir.text import print_op, print_program
from refluid.ir.variable import Parameter
from tests.golden import needs_golden, recorded_programs, telling_programs


@needs_golden
@pytest.mark.parametrize("most", ["telling", pytest.param("all", marks=pytest.mark.slow)])
@pytest.mark.parametrize("start", range(4))
def test_recorded_programs_survive_both_forms(start: int, most: str) -> None:
    recorded = recorded_programs()
    for path in (telling_programs() if most == "telling" else [*recorded])[start::4]:
        data = recorded[path]
        program = Program.parse_from_string(data)
        message = encode_program(program)
        assert message.SerializeToString() == data, path
        assert encode_program(parse_program(print_program(program))) == message, path


def test_form() -> None:
    """Every kind of line, as printed; parsing gives what prints the same."""
    text = """program version=1008005 seed=7
block 0 parent=-1 forward=0
  var x: float32[-1, 784] lod=0 persistable=false check_feed
  var rows: SELECTED_ROWS float32[4, 2] stop_gradient
  var steps: STEP_SCOPES
  var unknown: int64
  param w: float32[784, 10] trainable=false stop_gradient
  mul(X=x, Y=w) -> Out=y, Extra=[], Two=[a, "b c"] {INT=1, LONG=-1L, FLOAT=0.1, STRING="a\\n\u2028"}
  print(In=y) target=true {BOOLEAN=true, BLOCK=@1, BLOCKS=[@0, @1], INTS=[1, 2], LONGS=[1]L}
  nothing() -> Out=y {FLOATS=[1.0, -inf], STRINGS=["", "b"], BOOLEANS=[false], none=floats[]}
block 1 parent=0
"""
    program = parse_program(text)
    assert print_program(program) == text
    assert program.random_seed == 7
    w = program.global_block().var("w")
    assert isinstance(w, Parameter) and w.persistable and not w.trainable
    op = program.global_block().ops[0]
    assert op.attr("FLOAT") == float32(0.1) and op.attr_type("LONG") == AttrType.LONG
    assert program.global_block().ops[1].attr("BLOCK") is program.blocks[1]
    assert program.global_block().var("x").is_data


def test_details_are_comments() -> None:
    program = Program()
    block = program.global_block()
    Parameter(block, [2], "float32", name="w", optimize_attr={"learning_rate": 0.5})
    text = program.to_string(True, with_details=True)
    assert "\n    # trainable: True, optimize_attr: {'learning_rate': 0.5}" in text
    assert block.to_string(True, True) in text
    assert print_program(parse_program(text)) == program.to_string(True)


def test_brief_leaves_out_defaults_and_bookkeeping() -> None:
    text = 'program\nrelu(X=x) -> Out=y {op_role=0, use_mkldnn=false, use_cudnn=true, op_device=""}'
    op = parse_program(text).global_block().ops[0]
    assert print_op(op, brief=True) == "relu(X=x) -> Out=y {use_cudnn=true}"


def test_comments_and_blank_lines_are_skipped() -> None:
    program = parse_program("# a test\n\nprogram\n  # the only operator\n  relu(X=x) -> Out=x")
    assert [op.type for op in program.global_block().ops] == ["relu"]
    assert program.version is None


def test_unusual_names_and_values() -> None:
    program = Program()
    block = program.global_block()
    block.create_var(name='a "b" \\ ], c', shape=[-1], dtype="float32")
    block.create_var(name="d:", shape=[], dtype="int64", persistable=True)
    text = print_program(program)
    again = parse_program(text)
    assert encode_program(again) == encode_program(program)
    assert print_program(again) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected 'program'"),
        ("program\n  var x: float33[1]", "line 2: .*float33"),
        ("program\n  var x: float32[1] loud", "line 2: .*loud"),
        ("program\n\n  relu(X=[x)", "line 3: expected ',', found '\\)'"),
        ("program\n  relu(X=x) {axis=}", "line 2: .*'}'"),
        ("program\n  relu(X=x", "line 2: expected ',', found the end"),
        ("program\n  relu(X=x) axis=1", "line 2: expected the end of the line, found 'axis'"),
        ("program\nblock 1 parent=0", "line 2: .*range"),
    ],
)
def test_errors_name_the_line(text: str, message: str) -> None:
    with pytest.raises(EnforceNotMet, match=message):
        parse_program(text)

"""The text form prints, and parses back to an equal program."""

import gzip
from pathlib import Path

import pytest

from refluid.core.errors import EnforceNotMet
from refluid.ir.desc import encode_program
from refluid.ir.parse import parse_program
from refluid.ir.program import Program
from refluid.ir.text import print_program
from tests.golden import GOLDEN, needs_golden

PROGRAMS = sorted(GOLDEN.glob("zoo/*/*.pb*")) + sorted(GOLDEN.glob("formats/**/__model__"))


def read(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


@needs_golden
@pytest.mark.parametrize("start", range(8))
def test_recorded_programs_survive_both_forms(start: int) -> None:
    for path in PROGRAMS[start::8]:
        data = read(path)
        program = Program.parse_from_string(data)
        message = encode_program(program)
        assert message.SerializeToString() == data, path
        assert encode_program(parse_program(print_program(program))) == message, path


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
        ("program\n  var x: LOD_TENSOR", "line 2: expected 'block'"),
        ("program\nblock 0 parent=-1\n  relu(X=[x) {}", "line 3: expected ', '"),
        ("program\nblock 0 parent=-1\n  relu(X=[x]) {INT axis=}", "line 3: expected a value"),
    ],
)
def test_errors_name_the_line(text: str, message: str) -> None:
    with pytest.raises(EnforceNotMet, match=message):
        parse_program(text)

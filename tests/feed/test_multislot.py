"""The compiled MultiSlot parser against plain Python, and what it says of malformed lines."""

from __future__ import annotations

import contextlib
import random
import struct
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refluid.feed.multislot.columns import Columns
from refluid.feed.multislot.parsing import LineSlot, MultiSlotParser, Parsed
from refluid.feed.text_datasets.batches import Piece, regroup
from tests.feed.multislot_reference import Bad, parse_line

WORDS = LineSlot("words", "int64")
DENSE = LineSlot("dense", "float32", 2)
FLOATS = LineSlot("floats", "float32")
PAIRS = LineSlot("pairs", "int64", 0, 2)
SLOTS = [WORDS, DENSE, LineSlot("id", "text", 1, 1, used=False), PAIRS]


def parse(text: bytes, slots: list[LineSlot], **options: Any) -> Parsed:
    return MultiSlotParser(slots, **options).parse(text, len(text), "data.txt", 1)


def rows(columns: Columns) -> list[list[list[Any]]]:
    """The values as rows of slots."""
    return [
        [values.tolist() for values in columns.part(row, row + 1).values]
        for row in range(columns.rows)
    ]


def expected(text: bytes, slots: list[LineSlot]) -> tuple[list[list[Any]], int | None]:
    """The rows before the first bad line, and its number."""
    lines = text.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    found = []
    for number, line in enumerate(lines, 1):
        try:
            values = parse_line(line, slots)
        except Bad:
            return found, number
        found.append([v for v, slot in zip(values, slots, strict=True) if slot.used])
    return found, None


def same(ours: list[Any], theirs: list[Any]) -> bool:
    """Equal bit by bit, except that any NaN is like another."""
    if len(ours) != len(theirs):
        return False
    return all(
        struct.pack("<d", a) == struct.pack("<d", b) or (a != a and b != b)
        for row, other in zip(ours, theirs, strict=True)
        for slot, wanted in zip(row, other, strict=True)
        for a, b in zip(slot, wanted, strict=True)
    ) and [[len(slot) for slot in row] for row in ours] == [[len(s) for s in row] for row in theirs]


def check(text: bytes, slots: list[LineSlot]) -> None:
    parsed = parse(text, slots)
    wanted, bad = expected(text, slots)
    assert same(rows(parsed.columns), wanted), text
    assert (parsed.error is None) == (bad is None), (text, parsed.error)
    if bad is not None:
        assert str(parsed.error).startswith(f"data.txt, line {bad}: ")


def test_separators_endings_and_extra_tokens_are_accepted() -> None:
    text = (
        b"2 7 8 2 .5 -1e2 1 x 2 1 2\r\n\t1\t9  2 1 2 1 y 2 3 4   extra 5 \n1 1 2 0 0 1 z 4 1 2 3 4"
    )
    parsed = parse(text, SLOTS)
    assert parsed.error is None
    assert rows(parsed.columns) == [
        [[7, 8], [0.5, -100.0], [1, 2]],
        [[9], [1.0, 2.0], [3, 4]],
        [[1], [0.0, 0.0], [1, 2, 3, 4]],
    ]
    assert parsed.columns.offsets[1] is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "the line is empty, but must hold 4 slots"),
        (b"  \t ", "the line is empty"),
        (b"1 5", "the line ends before slot 'dense' (number 2 of 4): expected its count"),
        (b"0 2 1 1 1 x 2 1 1", "slot 'words' (number 1 of 4): has 0 values, expected at least 1"),
        (b"1 5 3 1 2 3 1 x 2 1 1", "has 3 values, expected exactly 2, as its variable is dense"),
        (b"1 5 2 1 2 1 x 3 1 1 1", "slot 'pairs' (number 4 of 4): has 3 values, expected a mult"),
        (b"3 5 6", "slot 'words' (number 1 of 4): the line ends before the 3 values"),
        (b"a 5", "slot 'words' (number 1 of 4): expected the count of its values, found 'a'"),
        (b"-1 5", "expected the count of its values, found '-1'"),
        (b"1234567890 5", "expected the count of its values, found '1234567890'"),
        (b"1 x 2 1 2 1 x 2 1 1", "expected a whole number (int64), found 'x'"),
        (b"1 1.5 2 1 2 1 x 2 1 1", "expected a whole number (int64), found '1.5'"),
        (b"1 5 2 1 2..5 1 x 2 1 1", "expected a number (float32), found '2..5'"),
        (b"1 5 2 1 1e 1 x 2 1 1", "expected a number (float32), found '1e'"),
        (b"1 5 2 1 .inf 1 x 2 1 1", "expected a number (float32), found '.inf'"),
        (b"1 5 2 1 -.nan 1 x 2 1 1", "expected a number (float32), found '-.nan'"),
        (b"1 5 2 1 1e39 1 x 2 1 1", "'1e39' does not fit into float32"),
        (b"1 18446744073709551616 2 1", "'18446744073709551616' does not fit into int64"),
        (b"1 \xff\x00 2 1", "expected a whole number (int64), found '\\\\xff\\x00'"),
        (b"1 " + b"9" * 99 + b"x", f"found '{'9' * 40}...'"),
    ],
)
def test_a_malformed_line_is_named(line: bytes, reason: str) -> None:
    good = b"1 5 2 1 2 1 x 2 1 1\n"
    parsed = parse(good * 2 + line + b"\n" + good, SLOTS)
    assert parsed.columns.rows == 2
    if "does not fit" not in reason or b"e39" in line:
        assert str(parsed.error).startswith("data.txt, line 3: ")
    assert reason.replace("found '9", "") in str(parsed.error) or reason in str(parsed.error)
    skipping = MultiSlotParser(SLOTS, skip_bad_lines=True)
    text = good * 2 + line + b"\n" + good
    assert skipping.parse(text, len(text), "", 1).columns.rows == 3
    assert skipping.skipped == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"18446744073709551615", -1),
        (b"-9223372036854775808", -(2**63)),
        (b"+0000000000000000000000000000012", 12),
        (b"9223372036854775808", -(2**63)),
    ],
)
def test_whole_numbers_have_64_bits(text: bytes, value: int) -> None:
    assert rows(parse(b"1 " + text, [WORDS]).columns) == [[[value]]]


def _between(bits: int) -> str:
    """The number halfway between two neighbouring float32: only exact reading rounds it right."""
    low = np.uint32(bits).view(np.float32)
    high = np.nextafter(low, np.float32(np.inf))
    with localcontext() as context:
        context.prec = 200
        return str((Decimal(float(low)) + Decimal(float(high))) / 2)


def test_floats_are_rounded_as_exact_arithmetic_does() -> None:
    source = random.Random(0)
    texts = [repr(source.random()) for _ in range(500)]
    texts += [f"{source.uniform(-1e6, 1e6):.{source.randint(0, 25)}f}" for _ in range(500)]
    texts += [
        f"{source.randint(0, 10 ** source.randint(1, 30))}e{source.randint(-70, 9)}"
        for _ in range(500)
    ]
    texts += [_between(source.randrange(1, 0x7F7FFFFE)) for _ in range(500)]
    texts += ["1e-45", "7e-46", "7.1e-46", "3.4028235e38", "1.17549435e-38", "0e99", "-0", "5e-324"]
    texts += [
        "nan",
        "-inf",
        "InFiNiTy",
        "1e-99999999999",
        "0." + "0" * 60 + "1",
        "1" * 38,
        "." + "3" * 50,
    ]
    check("".join(f"1 {text}\n" for text in texts).encode(), [FLOATS])


numbers = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.floats(width=32).map(repr),
    st.floats().map(repr),
    st.text("0123456789+-.eE infa", max_size=12),
)
counts = st.one_of(st.integers(0, 4).map(str), st.text("01239 -a", max_size=3))
blanks = st.sampled_from([" ", "  ", "\t", " \r", ""])
lines = st.lists(st.tuples(st.one_of(counts, numbers), blanks), max_size=14).map(
    lambda tokens: "".join(token + blank for token, blank in tokens)
)


@settings(max_examples=400, deadline=None)
@given(st.lists(lines, max_size=4).map("\n".join))
@example("1 1 2 1e1 .e1 1 x 2 1 1")
@example("\n")
def test_anything_gives_what_plain_python_gives(text: str) -> None:
    check(text.encode(), SLOTS)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_bytes_of_all_kinds(text: bytes) -> None:
    check(text, SLOTS)
    check(b"1 " + text, [FLOATS])


def test_mutated_bytes_of_good_lines() -> None:
    source = random.Random(1)
    good = b"2 71 8 2 .5 -1e2 1 x 2 1 2\n1 9 2 1.25 2 1 y 4 3 4 5 6\n"
    for _ in range(4000):
        text = bytearray(good)
        for _ in range(source.randint(1, 3)):
            text[source.randrange(len(text))] = source.choice(b"0123456789 .-+eE\n\t\r\x00\xffainf")
        check(bytes(text), SLOTS)


@pytest.mark.slow
def test_a_million_mutated_lines() -> None:
    source = random.Random(2)
    slots = [WORDS, DENSE, PAIRS]
    good = [b"2 71 8 2 .5 -1e2 2 1 2", b"1 9 2 1.25 2 4 3 4 5 6", b"3 1 2 3\t2 1e-3 7 2 8 9\r"]
    for _ in range(100):
        lines = [bytearray(source.choice(good)) for _ in range(10_000)]
        for line in lines:
            for _ in range(source.randint(0, 2)):
                line[source.randrange(len(line))] = source.choice(b"0123456789 .-+eE\t\r\x00\xffan")
        wanted = []
        for line in lines:
            with contextlib.suppress(Bad):
                wanted.append(parse_line(bytes(line), slots))
        text = b"\n".join(lines) + b"\n"
        parser = MultiSlotParser(slots, skip_bad_lines=True)
        columns = parser.parse(text, len(text), "", 1).columns
        assert parser.skipped == len(lines) - len(wanted)
        for place, values in enumerate(columns.values):
            flat = np.array([v for row in wanted for v in row[place]], values.dtype)
            assert values.tobytes() == flat.tobytes()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_groups_cross_the_bounds_of_parts(size: int) -> None:
    text = [b"".join(b"%d %s\n" % (k, b"7 " * k) for k in range(1, n)) for n in (4, 2, 6)]
    parts = [parse(one, [WORDS]).columns for one in text]
    pieces = [Piece(0, 0, one) for one in parts]
    found = [columns for columns, _ in regroup(pieces, size)]
    assert [one.rows for one in found[:-1]] == [size] * (len(found) - 1)
    lengths = [len(row[0]) for one in found for row in rows(one)]
    assert lengths == [1, 2, 3, 1, 1, 2, 3, 4, 5]


def test_rows_in_another_order() -> None:
    columns = parse(
        b"1 1 2 1 1 1 x 2 1 1\n2 2 2 2 2 2 1 x 2 2 2\n1 3 2 3 3 1 x 2 3 3\n", SLOTS
    ).columns
    order = np.array([2, 0, 1])
    taken = columns.take([order, order, np.array([0, 1, 2])])
    assert rows(taken) == [[[3], [3, 3], [1, 1]], [[1], [1, 1], [2, 2]], [[2, 2], [2, 2], [3, 3]]]


def test_a_line_needs_a_slot() -> None:
    with pytest.raises(ValueError, match="set_use_var"):
        MultiSlotParser([])

"""How benchmarks take turns and what they make of the times; the page they write."""

from __future__ import annotations

from pathlib import Path

from benchmarks.report import record
from refluid.measure.timing import Feed, Times, alternate, ratio

FAST = Times(((1.0, 1.0, 9.0), (2.0, 2.0, 2.0)))
SLOW = Times(((2.0, 2.0, 2.0), (6.0, 6.0, 1.0)))


def test_ratio_is_of_medians_and_its_range_is_over_blocks() -> None:
    found = ratio(FAST, SLOW)
    assert (found.value, found.low, found.high) == (1.0, 2.0, 3.0)


def test_alternates_and_turns_the_order() -> None:
    calls: list[str] = []

    def step(name: str) -> float:
        calls.append(name)
        return 0.0

    rivals = {name: lambda _, name=name: step(name) for name in ("a", "b")}
    feeds: list[Feed] = [{}]
    times = alternate(rivals, feeds, blocks=2, steps=1, warmup=0)
    assert "".join(calls) == "aabb" + "bbaa"
    assert [len(block) for block in times["a"].blocks] == [1, 1]


def test_record_replaces_its_section_only(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("# Benchmarks\n\nBy hand.\n")
    record(page, "steps on cpu", "MLP")
    record(page, "steps on cuda", "on a GPU")
    record(page, "steps on cpu", "anew")
    text = page.read_text()
    assert "By hand." in text and "on a GPU" in text and "anew" in text
    assert "MLP" not in text
    assert text.count("begin -->") == text.count("end -->") == 2

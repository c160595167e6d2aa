"""What is written from code is what the code of today gives: `make docs` writes it."""

from __future__ import annotations

from refluid.engine.knob_effects import measured
from refluid.engine.knob_table import knobs
from scripts import build_docs, fleet_page, knob_page
from scripts.operator_recordings import from_page


def test_the_page_of_operators() -> None:
    """Except for what only recordings tell, which is taken from the page itself."""
    text = build_docs.TARGET.read_text(encoding="utf-8")
    assert text == build_docs.page(from_page(text)), "docs/operators.md is stale: run `make docs`"


def test_the_tables_of_fleet() -> None:
    text = fleet_page.PAGE.read_text(encoding="utf-8")
    assert fleet_page.markdown() in text, "docs/fleet.md is stale: run `make docs`"


def test_the_tables_of_knobs() -> None:
    text = knob_page.PAGE.read_text(encoding="utf-8")
    tables = knob_page.markdown(knobs(), measured()[1])
    assert tables in text, "docs/knobs.md is stale: run `make docs`"

"""Sections of a Markdown page that benchmarks write."""

from __future__ import annotations

from pathlib import Path


def record(path: Path, name: str, text: str) -> None:
    """Replace the section `name` of a Markdown file by `text`; append it where there is none."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    section = f"{begin}\n{text}\n{end}"
    page = path.read_text(encoding="utf-8") if path.exists() else "# Benchmarks\n"
    if begin in page and end in page:
        head, _, rest = page.partition(begin)
        page = head + section + rest.partition(end)[2]
    else:
        page = f"{page.rstrip()}\n\n{section}\n"
    path.write_text(page, encoding="utf-8")

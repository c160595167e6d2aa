"""What a search found so far, on disk: a tuning that was ended goes on from there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from refluid.core.writing import write_file
from refluid.engine.choices import NONE, Choices
from refluid.engine.strategy_file import tables_of
from refluid.tune.ratios import Compared, TimedBlock
from refluid.tune.search import Tried
from refluid.tune.space import Proposal


class Journal:
    """Trials of one script on one machine, in their order, kept from one to the next.

    path: of the file, which `end` takes away. key: whatever the trials hold for.
    """

    def __init__(self, path: Path, key: str) -> None:
        self._path, self._key = path, key
        self._rows: list[dict[str, Any]] = []

    def before(self, planned: Sequence[Proposal]) -> list[Tried]:
        """The trials of an earlier search that didn't end, as far as they are planned now."""
        by_key = {one.key: one for one in planned}
        found: list[Tried] = []
        best = NONE
        for row in self._read():
            proposal = by_key.get(row["key"])
            if proposal is None or tables_of(best) != row["before"]:
                break
            tried = _tried(proposal, row, best)
            found.append(tried)
            self._rows.append(row)
            best = proposal.on(best) if tried.kept else best
        return found

    def note(self, one: Tried) -> None:
        """Keeps one more, now."""
        found = None if one.found is None else asdict(one.found)
        before = tables_of(one.before)
        told = {"key": one.proposal.key, "before": before, "kept": one.kept, "why": one.why}
        self._rows.append({**told, "found": found})
        text = json.dumps({"of": self._key, "tried": self._rows}).encode()
        write_file(self._path, lambda file: file.write(text), durable=False)

    def end(self) -> None:
        """The search came to its end: the next one begins anew."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> list[dict[str, Any]]:
        try:
            told = json.loads(self._path.read_text(encoding="utf-8"))
            rows: list[dict[str, Any]] = told["tried"] if told["of"] == self._key else []
            return rows
        except (OSError, ValueError, KeyError, TypeError):
            return []


def _tried(proposal: Proposal, row: dict[str, Any], best: Choices) -> Tried:
    found = row["found"]
    compared = None
    if found is not None:
        compared = Compared(**{**found, "usual": TimedBlock(**found["usual"])})
    return Tried(proposal, compared, row["kept"], row["why"], best)


def journal_of(command: Sequence[str], script: str, folder: Path, machine: str) -> Journal:
    """The one of a script with its arguments. script: its text; machine: which, with versions."""
    key = hashlib.sha256(repr((list(command), script, machine)).encode()).hexdigest()
    place = Path(command[0]).resolve() if command else Path()
    name = hashlib.sha256(repr((str(place), list(command[1:]), machine)).encode()).hexdigest()[:16]
    return Journal(folder / f"begun-{name}.json", key)

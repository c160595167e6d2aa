"""What recordings of Fluid say of each operator: element types seen, and cases that pass."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from refluid.core.dtypes import dtype_name
from refluid.ir.operator import Operator
from refluid.verify.recordings import find_recordings, load_recording
from refluid.verify.replay import replay

ROW = re.compile(r"^\| \[(\w+)\]")


@dataclass
class Seen:
    """Of one operator and its gradient."""

    dtypes: set[str] = field(default_factory=set)
    passed: int = 0
    total: int = 0

    def cells(self) -> tuple[str, str]:
        return ", ".join(sorted(self.dtypes)), f"{self.passed}/{self.total}"


def from_recordings(folder: Path) -> dict[str, tuple[str, str]]:
    """Replays all recordings in a folder; operator type -> the two cells of its row."""
    seen: defaultdict[str, Seen] = defaultdict(Seen)
    for path in find_recordings([folder]):
        recording = load_recording(path)
        with redirect_stdout(StringIO()):  # some programs print
            passed = replay(recording, path.stem).passed
        kinds = set()
        for program in recording.programs.values():
            for op in (op for block in program.blocks for op in block.ops):
                kind = op.type.removesuffix("_grad")
                kinds.add(kind)
                seen[kind].dtypes |= set(_dtypes(op))
        for kind in kinds:
            seen[kind].total += 1
            seen[kind].passed += passed
    return {kind: one.cells() for kind, one in seen.items()}


def _dtypes(op: Operator) -> Iterator[str]:
    for name in op.input_arg_names or op.output_arg_names:
        var = op.block.find_var_recursive(name)
        if var is not None and var.has_description():
            yield dtype_name(var.dtype)


def from_page(text: str) -> Mapping[str, tuple[str, str]]:
    """The two cells as a page already has them: what was found when recordings were there."""
    rows = [line for line in text.splitlines() if ROW.match(line)]
    cells = {one[1].strip(): one[-3:-1] for one in (row.split("|") for row in rows)}
    return {
        name[1 : name.index("]")]: (dtypes.strip(), cases.strip())
        for name, (dtypes, cases) in cells.items()
    }

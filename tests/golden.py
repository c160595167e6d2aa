"""Where the recordings of Fluid 1.8.5 lie, and the marker for tests that need them.

They are not part of this repository. `REFLUID_GOLDEN` names their folder; without it they are
looked for in `shared/golden`, in the checkout or beside it.
"""

from __future__ import annotations

import gzip
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from refluid.ir.framework_pb2 import ProgramDesc

_ROOT = Path(__file__).resolve().parents[1]


def _find() -> Path:
    named = os.environ.get("REFLUID_GOLDEN")
    if named:
        return Path(named)
    candidates = [_ROOT / "shared" / "golden", _ROOT.parent / "shared" / "golden"]
    return next((path for path in candidates if path.is_dir()), candidates[-1])


GOLDEN: Path = _find()

needs_golden = pytest.mark.skipif(
    not GOLDEN.is_dir(),
    reason="no golden recordings: set REFLUID_GOLDEN to the folder that holds program_schema.json",
)


@cache
def recorded_models() -> dict[str, Any]:
    """What is known of each recorded model, by name; nothing without recordings."""
    index = GOLDEN / "zoo" / "index.json"
    return dict(json.loads(index.read_text())) if index.exists() else {}


@cache
def recorded_programs() -> dict[Path, bytes]:
    """The messages of recorded programs by their files, small ones first."""
    files = [*GOLDEN.glob("zoo/*/*.pb*"), *GOLDEN.glob("formats/**/__model__")]
    found = {path: path.read_bytes() for path in files}
    return {
        path: gzip.decompress(data) if path.suffix == ".gz" else data
        for path, data in sorted(found.items(), key=lambda one: (len(one[1]), one[0]))
    }


@cache
def telling_programs() -> list[Path]:
    """The recorded programs with an attribute of an operator that no smaller one has: a third."""
    seen: set[tuple[str, str, int]] = set()
    found = []
    for path, data in recorded_programs().items():
        ops = [op for block in ProgramDesc.FromString(data).blocks for op in block.ops]
        own = {(op.type, attr.name, attr.type) for op in ops for attr in op.attrs}
        if own - seen:
            seen |= own
            found.append(path)
    return found

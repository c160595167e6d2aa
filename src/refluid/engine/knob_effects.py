"""What `benchmarks/knobs.py --record` measured of each knob, and where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from refluid.engine.knobs import MeasuredEffect

FILE = Path(__file__).with_suffix(".json")


@cache
def measured() -> tuple[Mapping[str, MeasuredEffect], Mapping[str, str]]:
    """The effect of each knob that is measured, and facts: machine, versions, date."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    effects = {name: MeasuredEffect(**one) for name, one in found["effects"].items()}
    return effects, found["measured"]

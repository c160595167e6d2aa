"""The tables of docs/fleet.md, of the fields of `DistributedStrategy`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.report import record
from refluid.paddle.distributed.fleet.base.configs import CONFIGS
from refluid.paddle.distributed.fleet.base.excluding import unheeded, why_not
from refluid.paddle.distributed.fleet.base.fields import FLAGS, SWITCHES, StrategyField

PAGE = Path(__file__).resolve().parent.parent / "docs" / "fleet.md"


def row(field: StrategyField) -> str:
    """The row of a field."""
    default = getattr(field.default, "name", None) or repr(field.default)
    what = field.does or (
        f"No effect, as the log says: {field.idle}"
        if field.idle
        else f"Refused if it is set to anything else: {field.refused}"
    )
    return f"| `{field.name}` | `{default}` | {what[:1].upper() + what[1:]} |"


def table(title: str, fields: Iterable[StrategyField]) -> list[str]:
    """A section with the table of some fields."""
    head = ["", f"## {title}", "", "| field | default | what it does here |", "|---|---|---|"]
    return head + [row(one) for one in fields]


# The options that change how workers train together; `build_strategy` may ask for Reduce mode.
PAIRED = (
    "amp", "recompute", "gradient_merge", "lars", "lamb", "dgc", "localsgd", "adaptive_localsgd",
    "sharding", "pipeline", "tensor_parallel", "fp16_allreduce", "use_hierarchical_allreduce",
    "sync_batch_norm", "build_strategy",
)  # fmt: skip


def beside(one: str, other: str) -> str:
    """What becomes of two options that are set together."""
    if one == other:
        return ""
    if why_not([one, other]):
        return "no"
    idle = next(iter(unheeded([one, other])), "")
    return f"without `{idle}`" if idle else "both"


def pairs() -> list[str]:
    """A section that says which options go together, as the code has it."""
    head = ["", "## Options together", "", "| | " + " | ".join(f"`{one}`" for one in PAIRED) + " |"]
    rows = [f"| `{one}` | " + " | ".join(beside(one, b) for b in PAIRED) + " |" for one in PAIRED]
    return [*head, "|---" * (len(PAIRED) + 1) + "|", *rows]


def markdown() -> str:
    """All tables."""
    lines = [*pairs(), *table("Switches", SWITCHES.values())]
    for name, fields in CONFIGS.items():
        lines += table(f"`{name}`", fields.values())
    return "\n".join([*lines, *table("Other fields", FLAGS.values())])


def write() -> None:
    """Writes the tables into the page."""
    record(PAGE, "fields", markdown())


if __name__ == "__main__":
    write()
    print(f"wrote {PAGE.name}")

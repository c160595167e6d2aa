"""Writes docs/operators.md from the registry: operators, gradients, slots and attributes."""

from __future__ import annotations

from pathlib import Path

import refluid.ops  # noqa: F401
from refluid.ir.schema import Attribute, Slot
from refluid.ops.registry import OperatorDef, find, operators

TARGET = Path(__file__).resolve().parent.parent / "docs" / "operators.md"
HEADER = """# Operators

Written by `make docs` from the registry; don't edit. `*` takes any number of variables, `?` may be
missing. Attributes that don't change the numbers (`use_mkldnn` and the like) are left out.
"""


def gradient_of(definition: OperatorDef) -> str:
    """How the gradient of an operator is computed."""
    if definition.maker is not None and definition.uses is None:
        return "other operators"
    if definition.uses is None:
        return "none"
    derived = find(definition.type + "_grad")
    return "autograd" if derived is not None and derived.body is None else "by hand"


def slots(given: tuple[Slot, ...]) -> str:
    """Slots with their marks."""
    marks = ("*", "?")
    return ", ".join(
        slot.name
        + "".join(mark for mark, on in zip(marks, (slot.many, slot.optional), strict=True) if on)
        for slot in given
    )


def attribute(given: Attribute) -> str:
    """An attribute with its default."""
    return given.name if given.required else f"{given.name}={given.default!r}"


def page() -> str:
    """The whole page."""
    forward = [
        one for one in operators() if one.body is not None and "@GRAD" not in slots(one.inputs)
    ]
    rows = ["| operator | gradient | in place |", "|---|---|---|"]
    details = []
    for one in forward:
        place = ", ".join(one.mutates.values())
        rows.append(f"| [{one.type}](#{one.type}) | {gradient_of(one)} | {place} |")
        attributes = ", ".join(attribute(one.attributes[name]) for name in one.keywords)
        call = f"{slots(one.outputs)} = {one.type}({slots(one.inputs)})"
        details.append(f"## {one.type}\n\n    {call}\n\n{one.doc}\n")
        if attributes:
            details.append(f"Attributes: `{attributes}`\n")
    count = f"{len(forward)} operators.\n"
    return "\n".join([HEADER, count, *rows, "", *details])


if __name__ == "__main__":
    TARGET.write_text(page())
    print(f"wrote {TARGET.name}")

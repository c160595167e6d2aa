"""Writes docs/operators.md from the registry: a table of all operators, then each one's proto.

python scripts/build_docs.py                                 # keeps what recordings told
python scripts/build_docs.py --recordings shared/golden/ops  # replays them anew (minutes)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import refluid.ops  # noqa: F401
from refluid.ir.schema import Attribute, Slot
from refluid.ops.element_types import INT64, KINDS
from refluid.ops.registry import OperatorDef, find, operators
from scripts.operator_layers import layers_by_operator
from scripts.operator_recordings import from_page, from_recordings

TARGET = Path(__file__).resolve().parent.parent / "docs" / "operators.md"
HEADER = """# Operators

Written by `make docs` from the registry; don't edit.

The table: which layers append the operator; its gradient (`hand-written`, `derived` by autograd,
made of `other operators`, that `of its block`, or `none`); whether it `takes` the sequences of its
inputs (LoD) and `makes` those of its outputs, others pass them on or have none; which arguments it
writes in place; the element types of its inputs in the recordings of Fluid 1.8.5, and how many of
the recorded cases with it or its gradient pass (`refluid verify`; deviations.md has the others).

What is `checked` before an operator runs: attributes and the declared shapes of inputs when it is
appended (`operator dropout: attribute 'dropout_prob' has to be from 0 to 1, but it is 2.0`), the
kind of its inputs' elements when a program is prepared (`op relu does not have kernel for
data_type[int64_t]`). Both are EnforceNotMet, as in Fluid, and name the user's line. What only the
values show (an index out of range) is checked when the operator runs.

Below, `*` takes any number of variables, `?` may be missing. Attributes that don't change the
numbers (`use_mkldnn` and the like) are left out.
"""
COLUMNS = ("operator", "layers", "gradient", "LoD", "in place", "checked", "dtypes", "golden cases")


def gradient_of(definition: OperatorDef) -> str:
    """How the gradient of an operator is computed."""
    if definition.maker is not None and definition.uses is None:
        return "other operators"
    derived = find(definition.type + "_grad")
    if definition.uses is None:
        return "none" if derived is None else "of its block"
    return "derived" if derived is not None and derived.body is None else "hand-written"


def lod_of(definition: OperatorDef) -> str:
    """What an operator does with sequences."""
    verbs = {"takes": definition.levels, "makes": definition.makes_lod}
    return ", ".join(verb for verb, does in verbs.items() if does)


def checked(definition: OperatorDef) -> str:
    """What attributes, inputs and elements of inputs have to be."""
    gradient = find(definition.type + "_grad")
    said = [_said(one) for one in (*definition.inputs, *definition.attributes.values())]
    if definition.type in KINDS:
        said.append(" or ".join(KINDS[definition.type]))
    said += [f"{slot} int64" for slot in INT64.get(definition.type, ())]
    if gradient is not None:
        own = [one for one in gradient.attributes.values() if one.checks]
        known = definition.attributes
        said += [
            f"for a gradient {_said(one)}"
            for one in own
            if one.name not in known or known[one.name].checks != one.checks
        ]
    return "; ".join(filter(None, said))


def _said(one: Slot | Attribute) -> str:
    return f"{one.name} {' and '.join(check.says for check in one.checks)}" if one.checks else ""


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


def proto(one: OperatorDef) -> str:
    """The section of one operator."""
    attributes = ", ".join(attribute(one.attributes[name]) for name in one.keywords)
    call = f"{slots(one.outputs)} = {one.type}({slots(one.inputs)})"
    text = f"## {one.type}\n\n    {call}\n\n{one.doc}\n"
    return f"{text}\nAttributes: `{attributes}`\n" if attributes else text


def _is_forward(one: OperatorDef) -> bool:
    """Whether this is no gradient operator."""
    gradient = one.type.endswith("_grad") or "@GRAD" in slots(one.inputs)
    return one.forward is None and not gradient


def page(recorded: Mapping[str, tuple[str, str]]) -> str:
    """The whole page. recorded: operator -> dtypes and golden cases."""
    forward = [one for one in operators() if _is_forward(one)]
    layers = layers_by_operator()
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [
        (
            f"[{one.type}](#{one.type})",
            ", ".join(layers.get(one.type, ())),
            gradient_of(one),
            lod_of(one),
            ", ".join(one.mutates.values()),
            checked(one),
            *recorded.get(one.type, ("", "")),
        )
        for one in forward
    ]
    table = ["| " + " | ".join(row) + " |" for row in rows]
    proven = sum(one.type in recorded and recorded[one.type][1] != "" for one in forward)
    count = f"{len(forward)} operators; {proven} of them occur in recordings.\n"
    return "\n".join([HEADER, count, *table, "", *(proto(one) for one in forward)])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write docs/operators.md.")
    parser.add_argument("--recordings", type=Path, metavar="FOLDER", help="replay these")
    options = parser.parse_args(arguments)
    if options.recordings:
        recorded: Mapping[str, tuple[str, str]] = from_recordings(options.recordings)
    else:
        recorded = from_page(TARGET.read_text(encoding="utf-8")) if TARGET.exists() else {}
    TARGET.write_text(page(recorded), encoding="utf-8")
    print(f"wrote {TARGET.name}")


if __name__ == "__main__":
    main()

"""Operators that are one call: a template for each, in tables of the families.

In a template {Slot} is an input's expression, "None" where it isn't given; {Slot.x} the same where
a method or an operator follows; {Slot.held} a name; {Slot.lengths} its sequences' lengths;
{Slot.all} a list of all inputs of the slot and {Slot.all_lengths} of their lengths; {attribute} its
value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from refluid.convert.site import Site, short
from refluid.convert.table import Converter, converts
from refluid.ops import registry

_FIELD = re.compile(r"\{(\w+)(?:\.(\w+))?\}")


@dataclass(frozen=True)
class Template:
    """text: the template. out: slots of the outputs, several are given as a tuple.

    lengths: a template for those of the results' sequences; None: those of the first input that
    has some. loose: needs parentheses. scalar: no dimensions. only: attribute -> the only value
    that is converted.
    """

    text: str
    out: str = "Out"
    lengths: str | None = None
    loose: bool = False
    scalar: bool = False
    only: Mapping[str, object] | None = None


def calls(table: Mapping[str, Template | str]) -> None:
    """Registers converters of a table."""
    for kind, call in table.items():
        converts(kind)(_writer(Template(call) if isinstance(call, str) else call))


def _writer(call: Template) -> Converter:
    def write(site: Site) -> None:
        for name, wanted in (call.only or {}).items():
            found = site.attr(name)
            site.require(found is None or found == wanted, f"{name} is {found!r}")
        text = filled(site, call.text)
        lengths = None if call.lengths is None else filled(site, call.lengths)
        slots = [(slot, i) for slot in call.out.split() for i in range(len(site.op.output(slot)))]
        if len(call.out.split()) == 1 and len(slots) == 1:
            site.give(text, call.out, loose=call.loose, scalar=call.scalar, lengths=lengths)
        else:
            site.give_all(text, slots, lengths)

    return write


def filled(site: Site, template: str) -> str:
    """A template with the operator's inputs and attributes."""
    return _FIELD.sub(lambda found: _field(site, found[1], found[2]), template)


def _field(site: Site, name: str, how: str | None) -> str:
    definition = registry.find(site.op.type)
    slots = {slot.name for slot in definition.inputs} if definition is not None else set()
    if name not in slots:
        return repr(short(site.attr(name)))
    if not site.has(name):
        return "[]" if how == "all" else "None"
    count = range(len(site.names(name)))
    if how == "all":
        return f"[{', '.join(site.arg(name, index) for index in count)}]"
    if how == "all_lengths":
        return f"[{', '.join(site.lengths(name, index) for index in count)}]"
    found = {None: site.arg, "x": site.x, "held": site.held, "lengths": site.lengths}[how](name)
    return str(found)

"""Data generators that write MultiSlot text: per slot the count of values, then the values."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from refluid.fluid.incubate.data_generator.generator import DataGenerator

_EXPECTED = (
    "the output of generate_sample must be a list or tuple of (name, values), "
    "for example [('words', [1926, 8, 17]), ('label', [1])]"
)


class MultiSlotStringDataGenerator(DataGenerator):
    """For values that are text already: writes them unchecked, which is fastest."""

    def _gen_str(self, line: Any) -> str:
        """A sample [("words", ["1926", "08"]), ("label", ["1"])] as "2 1926 08 1 1"."""
        line = _listed(line)
        parts = []
        for _, values in line:
            parts.append(str(len(values)))
            parts.extend(values)
        return " ".join(parts) + "\n"


class MultiSlotDataGenerator(DataGenerator):
    """For numbers: checks that each sample has the same slots, and that they hold numbers."""

    def _gen_str(self, line: Any) -> str:
        """A sample [("words", [1926, 8, 17]), ("label", [1])] as "3 1926 8 17 1 1".

        The first sample says which slots there are; a slot with a float in any sample is a float
        slot. Raises ValueError for another form, other slots, no values, or what is no number.
        """
        line = _listed(line)
        known = self._proto_info
        if known is not None and len(known) != len(line):
            raise ValueError(
                f"the complete field set of two given line are inconsistent: {len(line)} slots "
                f"after samples of {len(known)}"
            )
        parts, info = [], []
        for place, item in enumerate(line):
            name, values = _checked(item)
            kind = "float" if any(not isinstance(v, Integral) for v in values) else "uint64"
            if known is not None:
                if known[place][0] != name:
                    raise ValueError(
                        f"the field name of two given line are not match: slot {place} is "
                        f"{name!r} after {known[place][0]!r}"
                    )
                kind = "float" if "float" in (kind, known[place][1]) else kind
            info.append((name, kind))
            parts.append(str(len(values)))
            parts.extend(map(_text, values))
        self._proto_info = info
        return " ".join(parts) + "\n"


def _listed(line: Any) -> Any:
    """What a sample is made of; `zip` gave lists to Fluid's first users."""
    if isinstance(line, zip):
        return list(line)
    if not isinstance(line, list | tuple):
        raise ValueError(f"{_EXPECTED}, not {type(line).__name__}")
    return line


def _checked(item: Any) -> tuple[str, Sequence[Any]]:
    if not isinstance(item, list | tuple) or len(item) != 2:
        raise ValueError(f"{_EXPECTED}, not with {item!r}")
    name, values = item
    if not isinstance(name, str):
        raise ValueError(f"the name of a slot must be text, not {type(name).__name__}")
    if not isinstance(values, list | tuple):
        raise ValueError(
            f"the values of slot {name!r} must be a list or tuple, not {type(values).__name__}"
        )
    if not values:
        raise ValueError(
            f"the values of slot {name!r} can not be empty; put one that stands for nothing, "
            "such as 0"
        )
    for value in values:
        if not _is_number(value):
            raise ValueError(
                f"slot {name!r} must hold int or float, not {type(value).__name__}: {value!r}"
            )
    return name, values


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _text(value: Any) -> str:
    """The shortest text that gives the same number; NumPy's numbers as Python's."""
    return str(int(value)) if isinstance(value, Integral) else repr(float(value))

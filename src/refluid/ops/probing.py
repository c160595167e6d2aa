"""Shapes and types of an operator's outputs, found by running its body on meta tensors.

A size that is not known yet (-1) is replaced by a probe. The body runs twice, with two probe
sizes; an output size that changes with the probe is itself unknown. The probes have many
divisors, so that reshapes of an unknown size work out.

An unknown size may also be one of those that are known: where the body refuses the probes, known
sizes that may have to equal them are replaced too. Then an output size that changes is as known as
the first input that has it, in the order of the operator's slots, or as the slot that `follows` of
its definition names: Fluid's rules copy the shape of one input.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from refluid.comm import ALONE
from refluid.core.dtypes import VarType, as_dtype, to_torch
from refluid.ir.schema import Slot
from refluid.kernels.without_dynamo import call_all_plainly
from refluid.kernels.without_sympy import stand_in
from refluid.ops.reading import probing

if TYPE_CHECKING:
    from refluid.ops.definition import OperatorDef

call_all_plainly()
stand_in()

# Two sizes that stand for an unknown one; smaller ones where a tensor of the first would have more
# elements than can be counted. Each is a multiple of many numbers: layers divide and fold sizes.
PROBES = ((55440, 110880), (2520, 5040), (120, 240))
_META = torch.device("meta")
_NUMBER = re.compile(r"\d+")
InputSpec = tuple[tuple[int, ...], VarType]
# Per slot the inputs, None for an optional slot without any.
Inputs = tuple[tuple[InputSpec, ...] | None, ...]
Attributes = tuple[tuple[str, Any], ...]
Outputs = list[list[InputSpec | None]]
# A size of an input: slot, number in the slot, axis.
SizePlace = tuple[int, int, int]


class Equal(NamedTuple):
    """Sizes taken for one: where it is unknown, where it is known, and what it is there."""

    unknown: frozenset[SizePlace]
    known: frozenset[SizePlace]
    size: int


@lru_cache(maxsize=4096)
def outputs_of(definition: OperatorDef, inputs: Inputs, attrs: Attributes) -> Outputs:
    """Shapes and types of all outputs, slot by slot, by the body on meta tensors of such inputs.

    Unknown sizes are -1: those that follow from unknown ones, or from elements of inputs. Raises
    ValueError, with what the body says but for sizes that stand for unknown ones.
    """
    try:
        return _probed(definition, inputs, attrs)
    except Exception as error:
        likely = ([equal] for equal in _equalities(inputs))
        for alternatives in chain(likely, _guesses(inputs)):
            found = list(_accepted(definition, inputs, attrs, alternatives))
            if found:
                return reduce(_merged, found)
        raise ValueError(_without_probes(error, definition, inputs, attrs)) from error


def _accepted(
    definition: OperatorDef, inputs: Inputs, attrs: Attributes, alternatives: Iterable[list[Equal]]
) -> Iterator[Outputs]:
    """The outputs by each alternative that the body doesn't refuse."""
    for equal in alternatives:
        with contextlib.suppress(Exception):
            yield _as_known(definition, inputs, attrs, equal)


def _places(inputs: Inputs) -> Iterator[tuple[SizePlace, int]]:
    """Every size of every input, in the order of slots."""
    for slot, specs in enumerate(inputs):
        for number, (shape, _) in enumerate(specs or ()):
            for axis, size in enumerate(shape):
                yield (slot, number, axis), size


def _unknown(inputs: Inputs) -> list[SizePlace]:
    return [place for place, size in _places(inputs) if size < 0]


def _equalities(inputs: Inputs) -> Iterator[list[Equal]]:
    """Which unknown sizes may be which known ones, the likeliest first: sizes of one axis that
    are alike, in inputs of the same rank and in all; then of two axes."""
    ranks = Counter(place[:2] for place, _ in _places(inputs))
    unknown = _unknown(inputs)
    known = [(place, size) for place, size in _places(inputs) if size >= 0]
    alike: dict[Equal, None] = {}
    for axis in sorted({axis for _, _, axis in unknown}):
        these = frozenset(place for place in unknown if place[2] == axis)
        there = [(place, size) for place, size in known if place[2] == axis]
        rank = {ranks[place[:2]] for place in these}
        for among in [one for one in there if ranks[one[0][:2]] in rank], there:
            for size in dict.fromkeys(size for _, size in among):
                places = frozenset(place for place, one in among if one == size)
                alike[Equal(these, places, size)] = None
    yield from ([one] for one in alike)
    for one, other in combinations(alike, 2):
        if one.unknown != other.unknown:
            yield [one, other]


def _guesses(inputs: Inputs) -> Iterator[list[list[Equal]]]:
    """What each single unknown size may be: any of the known ones, 1, or one more than these.

    Where several are accepted nothing says which it is: only what they agree on is known.
    """
    known = [(place, size) for place, size in _places(inputs) if size >= 0]
    for place in _unknown(inputs):
        unknown = frozenset((place,))
        same = [[Equal(unknown, frozenset((origin,)), size)] for origin, size in known]
        sizes = {1, *(size for _, size in known)}
        other = sorted(sizes.union(size + 1 for size in sizes))
        yield [*same, *([Equal(unknown, frozenset(), size)] for size in other)]


def _as_known(
    definition: OperatorDef, inputs: Inputs, attrs: Attributes, equal: list[Equal]
) -> Outputs:
    """The outputs if these sizes are equal, each following the slot that its operator names.

    Raises what the body does where it refuses that, too.
    """
    _probed(definition, _of_sizes(inputs, equal), attrs)
    slots = [slot.name for slot in definition.inputs]
    sources = [definition.follows.get(slot.name) for slot in definition.outputs]
    made = {
        source: _followed(definition, inputs, attrs, equal, slots.index(source) if source else None)
        for source in dict.fromkeys(sources)
    }
    return [made[source][number] for number, source in enumerate(sources)]


def _of_sizes(inputs: Inputs, equal: list[Equal]) -> Inputs:
    """The inputs with the known sizes for the unknown ones that equal them."""
    for one in equal:
        inputs = _replaced(inputs, one.unknown, one.size)
    return inputs


def _followed(
    definition: OperatorDef,
    inputs: Inputs,
    attrs: Attributes,
    equal: list[Equal],
    source: int | None,
) -> Outputs:
    """The outputs if these sizes are equal: as known as the first input that has each.

    source: the slot whose sizes go before all others.
    """
    for one in equal:
        first = min(one.unknown | one.known, key=lambda place: (place[0] != source, place))
        if first in one.known or not one.known:
            inputs = _replaced(inputs, one.unknown, one.size)
        else:
            inputs = _replaced(inputs, one.known, -1)
    return _probed(definition, inputs, attrs)


def _replaced(inputs: Inputs, places: Iterable[SizePlace], size: int) -> Inputs:
    """The inputs with another size at these places."""
    chosen = frozenset(places)
    return tuple(
        None
        if specs is None
        else tuple(
            (
                tuple(
                    size if (slot, number, axis) in chosen else one
                    for axis, one in enumerate(shape)
                ),
                dtype,
            )
            for number, (shape, dtype) in enumerate(specs)
        )
        for slot, specs in enumerate(inputs)
    )


def _without_probes(
    error: Exception, definition: OperatorDef, inputs: Inputs, attrs: Attributes
) -> str:
    """The error's text with -1 for each number that changes with the probe."""
    text = str(error)
    for sizes in PROBES:
        try:
            _between(definition, inputs, attrs, (sizes[1], sizes[1]))
        except Exception as again:
            other = str(again)
            if _NUMBER.sub("", text) == _NUMBER.sub("", other):
                return _common(text, other)
    return "its sizes don't fit"


def _common(text: str, other: str) -> str:
    """Texts that are alike but for numbers, with -1 where these differ."""
    numbers = zip(_NUMBER.findall(text), _NUMBER.findall(other), strict=True)
    common = iter([one if one == two else "-1" for one, two in numbers])
    return _NUMBER.sub(lambda _: next(common), text)


def _probed(definition: OperatorDef, inputs: Inputs, attrs: Attributes) -> Outputs:
    """By two probes for what is unknown."""
    for sizes in PROBES[:-1]:
        try:
            return _between(definition, inputs, attrs, sizes)
        except RuntimeError as error:
            if "overflow" not in str(error):
                raise
    return _between(definition, inputs, attrs, PROBES[-1])


def _between(
    definition: OperatorDef, inputs: Inputs, attrs: Attributes, sizes: tuple[int, int]
) -> Outputs:
    with probing(sizes[0]) as probe:
        first = _probe(definition, inputs, dict(attrs), sizes[0])
    if not _unknown(inputs) and not probe.used:
        return first
    with probing(sizes[1]):
        second = _probe(definition, inputs, dict(attrs), sizes[1])
    return _merged(first, second)


def _merged(first: Outputs, second: Outputs) -> Outputs:
    """The outputs with -1 for each size that differs."""
    return [
        [_merge(one, two) for one, two in zip(*pair, strict=True)]
        for pair in zip(first, second, strict=True)
    ]


def _merge(one: InputSpec | None, two: InputSpec | None) -> InputSpec | None:
    if one is None or two is None:
        return None
    if len(one[0]) != len(two[0]):
        raise ValueError(
            "how many dimensions a result has depends on a size that is unknown; declare that size"
        )
    sizes = zip(one[0], two[0], strict=True)
    return tuple(a if a == b else -1 for a, b in sizes), one[1]


def _probe(
    definition: OperatorDef,
    inputs: Sequence[tuple[InputSpec, ...] | None],
    attrs: dict[str, Any],
    size: int,
) -> list[list[InputSpec | None]]:
    values: list[Any] = []
    for slot, specs in zip(definition.inputs, inputs, strict=True):
        tensors = [_meta(spec, size) for spec in specs or ()]
        values.append((tensors or None) if slot.many else (tensors[0] if tensors else None))
    context: dict[str, Any] = {"comm": ALONE, "device": _META, "random": lambda seed: None}
    context |= {"counts": (1,) * len(definition.outputs), "op": None}
    given = {name: context[name] for name in definition.context}
    assert definition.body is not None
    with torch.no_grad():
        result = definition.body(*values, **attrs, **given)
    return [[_spec(one) for one in slot] for slot in by_slot(definition.outputs, result)]


def by_slot(slots: tuple[Slot, ...], result: Any) -> list[list[Tensor | None]]:
    """What a body returned, as one list per output slot."""
    parts = (result,) if len(slots) == 1 else result
    return [
        list(part) if slot.many and part is not None else [part]
        for slot, part in zip(slots, parts, strict=True)
    ]


def _meta(spec: InputSpec, size: int) -> Tensor:
    shape = [size if one < 0 else one for one in spec[0]]
    return torch.empty(shape, dtype=to_torch(spec[1]), device=_META)


def _spec(value: Tensor | None) -> InputSpec | None:
    if value is None:
        return None
    return tuple(value.shape), as_dtype(value.dtype)

"""Reads an operator's slots and attributes from the signature of its Python function.

    def elementwise_add(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor

Positional parameters are input slots: `Tensor`, `Tensor | None` (may be missing),
`list[Tensor]` (any number) and `list[Tensor] | None`. Keyword-only parameters are attributes;
their annotation gives the type. `d_Out` stands for the slot `Out@GRAD`, and `lambda_` for an
attribute whose name is a Python keyword. Names in `CONTEXT` are no attributes: the plan
supplies them (`counts` says how many variables each output slot has, `op` is the operator of the
program that is run), as it does a keyword
`lod_X: Levels` (`lods_X: list[Levels]`), the LoD of slot X.

`Annotated[float, between(0.0, 1.0)]` says what an attribute, or the shape of an input, has to be
(see `refluid.ir.checks`).

`*others` stands for the slots, `**settings` for the attributes (and what the plan supplies) of
another operator that the decorator names (`like="batch_norm"`), but for those named before.

A slot that takes other values than tensors says so: `Tensor | SelectedRows`, `SelectedRows`,
`LoDTensorArray`, or `AnyValue` for whatever another operator made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol, get_origin, get_type_hints

import torch
from torch import Tensor

from refluid.core.lod_tensor import LoDTensorArray
from refluid.core.offsets import Levels
from refluid.core.selected_rows import SelectedRows
from refluid.ir.attributes import AttrType, convert
from refluid.ir.block import Block
from refluid.ir.checks import Check
from refluid.ir.names import GRAD
from refluid.ir.schema import Attribute, Slot

Long = Annotated[int, AttrType.LONG]
Longs = Annotated[Sequence[int], AttrType.LONGS]
Body = Callable[..., Any]
AnyValue = Any

CONTEXT = frozenset({"comm", "counts", "device", "need", "op", "random"})


class Random(Protocol):
    """Source of random numbers: `random(seed)` is a generator, a fresh one where seed is not 0."""

    def __call__(self, seed: int) -> torch.Generator | None: ...


_KIND: dict[Any, AttrType] = {
    bool: AttrType.BOOLEAN,
    int: AttrType.INT,
    float: AttrType.FLOAT,
    str: AttrType.STRING,
    Sequence[bool]: AttrType.BOOLEANS,
    Sequence[int]: AttrType.INTS,
    Sequence[float]: AttrType.FLOATS,
    Sequence[str]: AttrType.STRINGS,
    Long: AttrType.LONG,
    Longs: AttrType.LONGS,
    Block: AttrType.BLOCK,
    Sequence[Block]: AttrType.BLOCKS,
}
_SLOT: dict[Any, tuple[bool, bool]] = {
    Tensor: (False, False),
    Tensor | None: (False, True),
    list[Tensor]: (True, False),
    list[Tensor] | None: (True, True),
    Tensor | SelectedRows: (False, False),
    Tensor | SelectedRows | None: (False, True),
    list[Tensor | SelectedRows]: (True, False),
    list[Tensor | SelectedRows] | None: (True, True),
    SelectedRows: (False, False),
    LoDTensorArray: (False, False),
    LoDTensorArray | None: (False, True),
    AnyValue: (False, False),
    list[AnyValue]: (True, False),
}
_LOD = {Levels: "lod_", list[Levels]: "lods_"}


@dataclass(frozen=True)
class Signature:
    """What the function of an operator says about it."""

    inputs: tuple[Slot, ...]
    attributes: dict[str, Attribute]
    keywords: dict[str, str]
    context: frozenset[str]
    levels: dict[str, str]


def slot_name(parameter: str) -> str:
    """`d_Out` -> `Out@GRAD`, `X` -> `X`."""
    return parameter[2:] + GRAD if parameter.startswith("d_") else parameter


NOTHING = Signature((), {}, {}, frozenset(), {})


def read_signature(body: Body, like: Signature = NOTHING) -> Signature:
    """Slots and attributes of `body`; TypeError where an annotation is none of the known.

    like: what `*others` and `**settings` of the function stand for.
    """
    hints = _hints(body)
    inputs: list[Slot] = []
    attributes: dict[str, Attribute] = {}
    keywords: dict[str, str] = {}
    context: set[str] = set()
    levels: dict[str, str] = {}
    for parameter in inspect.signature(body).parameters.values():
        if parameter.kind == inspect.Parameter.VAR_POSITIONAL:
            named = {slot.name for slot in inputs}
            inputs += [slot for slot in like.inputs if slot.name not in named]
            continue
        if parameter.kind == inspect.Parameter.VAR_KEYWORD:
            attributes = {**like.attributes, **attributes}
            keywords = {**like.keywords, **keywords}
            levels = {**like.levels, **levels}
            context |= like.context
            continue
        (hint, checks), name = _checked(hints[parameter.name]), parameter.name
        if parameter.kind != inspect.Parameter.KEYWORD_ONLY:
            many, optional = _known(_SLOT, hint, body, name)
            inputs.append(Slot(slot_name(name), many, optional, checks))
        elif name in CONTEXT:
            context.add(name)
        elif hint in _LOD:
            levels[name] = slot_name(name.removeprefix(_LOD[hint]))
        else:
            kind = _known(_KIND, hint, body, name)
            required = parameter.default is inspect.Parameter.empty
            default = None if required else convert(parameter.default, kind)
            attribute = Attribute(name.rstrip("_"), kind, default, required, checks)
            attributes[attribute.name] = attribute
            keywords[attribute.name] = name
    return Signature(tuple(inputs), attributes, keywords, frozenset(context), levels)


_evaluated: dict[tuple[str, str], Any] = {}


def _hints(body: Body) -> dict[str, Any]:
    """The annotations of `body`; a text that stands often in its module is evaluated once."""
    texts = inspect.get_annotations(body)
    known = {name: (body.__module__, text) for name, text in texts.items() if isinstance(text, str)}
    if len(known) < len(texts) or not _evaluated.keys() >= set(known.values()):
        found = get_type_hints(body, include_extras=True)
        _evaluated.update((key, found[name]) for name, key in known.items())
        return found
    return {name: _evaluated[key] for name, key in known.items()}


def _checked(hint: Any) -> tuple[Any, tuple[Check, ...]]:
    """The annotation without the checks in it, and these."""
    if get_origin(hint) is not Annotated:
        return hint, ()
    others = [one for one in hint.__metadata__ if not isinstance(one, Check)]
    checks = tuple(one for one in hint.__metadata__ if isinstance(one, Check))
    plain = hint.__origin__
    for one in others:
        plain = Annotated[plain, one]
    return plain, checks


def _known(table: dict[Any, Any], hint: Any, body: Body, name: str) -> Any:
    if hint not in table:
        raise TypeError(f"{body.__qualname__}: annotation {hint} of {name!r} is not an operator's")
    return table[hint]


def parse_slots(text: str) -> tuple[Slot, ...]:
    """`"Out* XShape?"`: slots separated by spaces, `*` for any number, `?` for optional."""
    return tuple(
        Slot(word.rstrip("*?"), many="*" in word, optional="?" in word) for word in text.split()
    )


def declare(attributes: dict[str, Any]) -> dict[str, Attribute]:
    """Attributes given as name -> default, their type taken from the default."""
    from refluid.ir.attributes import guess_type

    kinds = {name: guess_type(value) for name, value in attributes.items()}
    return {
        name: Attribute(name, kinds[name], convert(value, kinds[name]))
        for name, value in attributes.items()
    }


def completed(found: Signature, extra: Mapping[str, Any], inner: str) -> dict[str, Attribute]:
    """The attributes of a signature, of which only passes set one, and others that say nothing."""
    attributes = found.attributes | declare(dict(extra))
    if inner:
        attributes[inner] = replace(attributes[inner], inner=True)
    return attributes


def joined(own: dict[str, Attribute], forward: dict[str, Attribute]) -> dict[str, Attribute]:
    """Attributes of the forward operator, and those its gradient alone has; own checks count."""
    strict = {name: one.checks for name, one in own.items() if one.checks}
    return {
        name: replace(one, checks=strict[name]) if name in strict else one
        for name, one in {**own, **forward}.items()
    }

"""What Python's own errors mean, in words that name the function and the arguments it was given."""

from __future__ import annotations

import inspect
import numbers
import opcode
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from refluid.core.own_frames import is_library, is_part
from refluid.core.texts import screenful

_RAISE = opcode.opmap["RAISE_VARARGS"]
_MOST_ARGUMENTS = 8
_MOST_CHARACTERS = 60
# The names of annotations, and what fits them; others are not judged.
_FITTING: dict[str, Callable[[Any], bool]] = {
    "None": lambda value: value is None,
    "int": lambda value: isinstance(value, numbers.Integral) or _is_scalar(value),
    "float": lambda value: isinstance(value, numbers.Real) or _is_scalar(value),
    "bool": lambda value: isinstance(value, bool | numbers.Integral) or value is None,
    "str": lambda value: isinstance(value, str),
    "Variable": lambda value: _is_a(value, "Variable", "VarBase"),
    "Sequence": lambda value: isinstance(value, list | tuple | range),
    "list": lambda value: isinstance(value, list | tuple),
    "tuple": lambda value: isinstance(value, list | tuple),
    "Iterable": lambda value: isinstance(value, Iterable),
    "Mapping": lambda value: isinstance(value, Mapping),
    "dict": lambda value: isinstance(value, Mapping),
    "Callable": callable,
}


def explain(
    function: Callable[..., Any],
    error: Exception,
    given: Sequence[Any],
    options: Mapping[str, Any],
) -> Exception | None:
    """The error to raise instead of one that came out of a function given these arguments.

    TypeError for arguments that don't fit their annotations, else ValueError. None where the error
    stands as it is: refluid or the user raised it, or the arguments are no call of the function.
    """
    if not is_pythons(error):
        return None
    try:
        bound = inspect.signature(function).bind(*given, **options)
    except TypeError:
        return None
    hints, made = function.__annotations__, bound.arguments.pop("self", None)
    name = function.__name__ if made is None else type(made).__name__
    wrong = [
        _wrong(hints[key], key, value)
        for key, value in bound.arguments.items()
        if isinstance(hints.get(key), str) and not _fits(hints[key], value)
    ]
    if wrong:
        return TypeError(screenful(f"{name}: {'; '.join(wrong)}"))
    listed = [f"{key}={_shown(value)}" for key, value in bound.arguments.items()]
    told = ", ".join(listed[:_MOST_ARGUMENTS])
    kind = TypeError if isinstance(error, TypeError | AttributeError) else ValueError
    return kind(screenful(f"{name} can't take these arguments together: {told} ({error})"))


def check(function: Callable[..., Any], made: Any, key: str, value: Any) -> None:
    """TypeError unless this argument is what the annotation says, of what makes an object."""
    hint = function.__annotations__[key]
    if not _fits(hint, value):
        raise TypeError(screenful(f"{type(made).__name__}: {_wrong(hint, key, value)}"))


def _wrong(hint: str, key: str, value: Any) -> str:
    return f"argument {key!r} has to be {_said(hint)}, not {_shown(value)}"


def is_pythons(error: Exception) -> bool:
    """Whether Python or a library raised it where the caller's calls led, none of a user's."""
    frames = list(_frames(error.__traceback__))[1:]
    return bool(frames) and not _was_raised(frames[-1]) and not any(map(_is_users, frames))


def _frames(found: TracebackType | None) -> Iterable[TracebackType]:
    while found is not None:
        yield found
        found = found.tb_next


def _was_raised(found: TracebackType) -> bool:
    """Whether a `raise` or `assert` of refluid's is what ended this frame."""
    code = found.tb_frame.f_code
    own = is_part(code.co_filename) and "refluid" in code.co_filename
    return own and code.co_code[found.tb_lasti] == _RAISE


def _is_users(found: TracebackType) -> bool:
    """Whether the frame is of a script, or of a package that uses refluid."""
    file = found.tb_frame.f_code.co_filename
    if is_part(file) or "/numpy/" in file:
        return False
    return not is_library(file) or "-packages/" in file


def _is_a(value: Any, *names: str) -> bool:
    """Whether its class, or one that this is made of, has one of these names."""
    return any(kind.__name__ in names for kind in type(value).__mro__)


def _fits(hint: str, value: Any) -> bool:
    """Whether a value is one of the kinds that an annotation's text names."""
    return any(_fits_one(one, value) for one in _alternatives(hint))


def _fits_one(hint: str, value: Any) -> bool:
    found = re.fullmatch(r"(\w+)(?:\[(.*)\])?", hint)
    fitting = _FITTING.get(found[1]) if found else None
    if found is None or fitting is None:
        return True
    if not fitting(value):
        return False
    inner = found[2] if found[1] in ("Sequence", "list") else None
    return inner is None or all(_fits(inner, one) for one in value)


def _alternatives(hint: str) -> list[str]:
    """The parts of `int | Sequence[int | None]` between the outermost bars."""
    parts, depth = [""], 0
    for sign in hint:
        depth += (sign == "[") - (sign == "]")
        if sign == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _said(hint: str) -> str:
    """The annotation in words: `int or list of int`."""
    text = re.sub(r"\b(?:Sequence|list)\[", "list of [", hint).replace("[", "").replace("]", "")
    return " or ".join(part.strip() for part in text.split("|"))


def _shown(value: Any) -> str:
    """A value as messages show it: variables and arrays by shape and type."""
    if isinstance(value, list | tuple) and any(_has_shape(one) for one in value):
        return f"[{', '.join(map(_shown, value))}]"
    if _has_shape(value):
        name = getattr(value, "name", None)
        what = f"{type(value).__name__} {name}" if name else type(value).__name__
        return f"{what} of shape {_shape(value)}"
    text = repr(value)
    text = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}.."
    return text if value is None else f"{text} ({type(value).__name__})"


def _is_scalar(value: Any) -> bool:
    """Whether it is an array without dimensions."""
    return _is_a(value, "ndarray", "Tensor") and getattr(value, "ndim", None) == 0


def _has_shape(value: Any) -> bool:
    return _is_a(value, "Variable", "VarBase", "ndarray", "Tensor")


def _shape(value: Any) -> str:
    try:
        return str(list(value.shape))
    except Exception:  # a variable that has none
        return "unknown"

"""The one printer: what was written of a network as the text of a Python module."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator, Sequence

from refluid.convert.members import Written
from refluid.convert.parts import used_by
from refluid.convert.source import Source
from refluid.convert.stacks import Stack

_WIDTH = 100
_HEAD = '''"""{title}, as PyTorch.

    model = Model()
    model.load_state_dict(torch.load("{weights}"))
"""

import math
from collections.abc import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
'''
_IMPORTS = {
    "import math": r"\bmath\.",
    "from collections.abc import Callable": r"\bCallable\b",
    "import torch.nn.functional as F": r"\bF\.",
    "from torch import Tensor": r"\bTensor\b",
}
_CLASS = '''

class {kind}(nn.Module):
    """{about}"""

    def __init__(self):
        super().__init__()
'''


def print_module(source: Source, written: Written, weights: str = "model.pt") -> str:
    """The source text; it is formatted as Python code usually is."""
    stacks = [_class(one.kind, _one_of(one), one.written, one.results) for one in written.stacks]
    results = [written.results[name] for name in source.fetches]
    classes = "".join((*stacks, _class("Model", _about(source, written), written, results)))
    helpers = "".join(f"\n\n{part.text}\n" for part in used_by(classes))
    code = helpers + classes
    return _imports(_HEAD.format(title=_title(source), weights=weights), code) + code


def _class(kind: str, about: str, written: Written, results: Sequence[str]) -> str:
    lines = [*_init(written), "", *_forward(written, results)]
    body = "\n".join(f"    {line}" if line else "" for line in lines)
    return f"{_CLASS.format(kind=kind, about=about)}{body}\n"


def _one_of(stack: Stack) -> str:
    return f"One of {stack.count}."


def _imports(head: str, code: str) -> str:
    """The head with the imports that the code needs."""
    for line, use in _IMPORTS.items():
        if not re.search(use, code):
            head = head.replace(f"{line}\n", "")
    return head.replace('"""\n\n\nimport torch\n', '"""\n\nimport torch\n')


def _title(source: Source) -> str:
    return f"{source.name.strip('_') or 'A model'}, converted from Fluid"


def _about(source: Source, written: Written) -> str:
    given = [f"{name} {_shape(source, fed)}" for fed, name in written.arguments.items()]
    return textwrap.fill(
        f"Takes {', '.join(given) or 'nothing'}; gives {', '.join(source.fetches)}.",
        _WIDTH - 8,
        subsequent_indent="    ",
    )


def _shape(source: Source, fed: str) -> str:
    if fed.endswith("@LENGTHS"):
        return "(sequences,)"
    shape = source.var(fed).shape
    return "(" + ", ".join("N" if size < 0 else str(size) for size in shape) + ")"


def _init(written: Written) -> Iterator[str]:
    for name, maker in written.makers.items():
        yield from (f"    {part}" for part in wrapped(f"self.{name} = {maker}"))
    for stack in written.stacks:
        made = f"{stack.kind}() for _ in range({stack.count})"
        yield f"    self.{stack.attribute} = nn.ModuleList({made})"
    for name in written.parameters:
        yield f"    self.{name} = nn.Parameter({_zeros(written, name)})"
    for name in written.buffers:
        yield f'    self.register_buffer("{name}", {_zeros(written, name)})'
    for key, first in written.ties.items():
        if key not in written.parameters and not re.search(r"\.\d+\.", key):
            yield f"    self.{key} = self.{first}"
    used = "\n".join((*written.lines, *written.results.values()))
    for name, text in written.constants.items():
        if not re.search(rf"self\.{name}\b", used):
            continue
        line = f'self.register_buffer("{name}", {text}, persistent=False)'
        yield from (f"    {part}" for part in wrapped(line))


def _zeros(written: Written, name: str) -> str:
    value = written.state[name]
    kind = "" if str(value.dtype) == "torch.float32" else f", dtype={value.dtype}"
    return f"torch.zeros({', '.join(map(str, value.shape)) or '()'}{kind})"


def _forward(written: Written, results: Sequence[str]) -> Iterator[str]:
    yield from wrapped(f"def forward(self, {', '.join(written.arguments.values())}):")
    for line in written.lines:
        yield from (f"    {part}" for part in wrapped(line))
    yield from (f"    {part}" for part in wrapped(f"return {', '.join(results)}"))


def wrapped(line: str) -> list[str]:
    """A long line with the arguments of its longest call on lines of their own."""
    if len(line) <= _WIDTH - 8:
        return [line]
    span = _longest_call(line)
    if span is None:
        return [line]
    start, end = span
    indent = line[: len(line) - len(line.lstrip())] + "    "
    inner = line[start + 1 : end]
    is_call = start > 0 and (line[start - 1].isalnum() or line[start - 1] in "_])")
    if len(indent) + len(inner) <= _WIDTH - 8:
        lines = [indent + inner]
    elif not is_call:
        lines = wrapped(indent + inner)
    else:
        lines = [part for one in _arguments(inner) for part in wrapped(f"{indent}{one},")]
    return [line[: start + 1], *lines, *wrapped(indent[4:] + line[end:])]


def _groups(line: str) -> Iterator[tuple[int, int]]:
    """Where parentheses that stand in no others open and close."""
    depth, start, quote = 0, 0, ""
    for place, letter in enumerate(line):
        if quote or letter in "\"'":
            quote = ("" if letter == quote else quote) if quote else letter
        elif letter in "([{":
            start, depth = (place if depth == 0 else start), depth + 1
        elif letter in ")]}":
            depth -= 1
            if depth == 0 and letter == ")":
                yield start, place


def _longest_call(line: str) -> tuple[int, int] | None:
    found = [one for one in _groups(line) if one[1] - one[0] > 20]
    return max(found, key=lambda one: one[1] - one[0], default=None)


def _arguments(inner: str) -> list[str]:
    """The arguments of a call."""
    nested = list(_all_groups(inner))
    commas = [
        place
        for place, letter in enumerate(inner)
        if letter == "," and not any(start < place < end for start, end in nested)
    ]
    ends = [-1, *commas, len(inner)]
    return [
        inner[a + 1 : b].strip() for a, b in itertools.pairwise(ends) if inner[a + 1 : b].strip()
    ]


def _all_groups(line: str) -> Iterator[tuple[int, int]]:
    depth, start = 0, 0
    for place, letter in enumerate(line):
        if letter in "([{":
            start, depth = (place if depth == 0 else start), depth + 1
        elif letter in ")]}":
            depth -= 1
            if depth == 0:
                yield start, place

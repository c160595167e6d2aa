"""The one printer: what was written of a network as the text of a Python module."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from refluid.convert.source import Source
from refluid.convert.writer import Written

_WIDTH = 100
_HEAD = '''"""{title}, as PyTorch.

    model = Model()
    model.load_state_dict(torch.load("{weights}"))
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """{about}"""

    def __init__(self):
        super().__init__()
'''


def print_module(source: Source, written: Written, weights: str = "model.pt") -> str:
    """The source text; it is formatted as Python code usually is."""
    head = _HEAD.format(title=_title(source), weights=weights, about=_about(source, written))
    lines = [*_init(written), "", *_forward(source, written)]
    body = "\n".join(f"    {line}" if line else "" for line in lines)
    text = head + body + "\n"
    return text if "F." in body else text.replace("import torch.nn.functional as F\n", "")


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
        yield f"    self.{name} = {maker}"
    for name in written.parameters:
        yield f"    self.{name} = nn.Parameter({_zeros(written, name)})"
    for name in written.buffers:
        yield f'    self.register_buffer("{name}", {_zeros(written, name)})'
    for name, text in written.constants.items():
        yield f'    self.register_buffer("{name}", {text}, persistent=False)'
    if not (written.makers or written.parameters or written.buffers or written.constants):
        yield "    pass"


def _zeros(written: Written, name: str) -> str:
    value = written.state[name]
    kind = "" if str(value.dtype) == "torch.float32" else f", dtype={value.dtype}"
    return f"torch.zeros({', '.join(map(str, value.shape)) or '()'}{kind})"


def _forward(source: Source, written: Written) -> Iterator[str]:
    yield f"def forward(self, {', '.join(written.arguments.values())}):"
    for line in written.lines:
        yield from (f"    {part}" for part in _wrapped(line))
    results = [written.results[name] for name in source.fetches]
    yield from (f"    {part}" for part in _wrapped(f"return {', '.join(results)}"))


def _wrapped(line: str) -> list[str]:
    """A long call with its arguments on lines of their own."""
    if len(line) <= _WIDTH - 8 or "(" not in line or not line.endswith(")"):
        return [line]
    start = _opening(line)
    if start is None:
        return [line]
    inner = line[start + 1 : -1]
    return [line[: start + 1], f"    {inner}", ")"]


def _opening(line: str) -> int | None:
    """Where the parenthesis opens that the line's last one closes."""
    depth = 0
    for place in range(len(line) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(line[place], 0)
        if depth == 0:
            return place
    return None

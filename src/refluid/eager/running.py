"""Plans of single operators, which take tensors by name."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from refluid.core.dtypes import VarType
from refluid.ir.attributes import CALLSTACK
from refluid.ir.block import Block
from refluid.ir.callstack import user_frames
from refluid.runtime.code import Code
from refluid.runtime.codegen import write_plan
from refluid.runtime.request import Request

Names = tuple[str, ...]


@dataclass(frozen=True)
class Declared:
    """What a call's inputs have in common with those of others: types, ranks, which have LoDs."""

    dtypes: tuple[VarType, ...]
    ranks: tuple[int, ...]
    lods: tuple[int, ...]


class _Called(Code):
    """The code of an operator that is kept for calls from anywhere: errors name the call."""

    def explain(self, error: Exception) -> Exception:
        """The error to raise instead of one that came out of the step."""
        for op in self.origin.values():
            op.attrs[CALLSTACK] = user_frames()
        return super().explain(error)


class Running:
    """A plan that takes tensors by name.

    called: whether its operators are those that the user calls, and not their gradients.
    """

    def __init__(
        self,
        block: Block,
        feeds: Names,
        fetches: Names,
        lods: frozenset[str],
        device: torch.device,
        called: bool = False,
    ) -> None:
        request = Request(block, feeds, fetches, device, lods, lends=True)
        written = write_plan(request)
        self.code = (_Called if called else Code)(
            written.source, written.variables.names, "operator"
        )
        self.state: Names = tuple(key[1] for key in written.variables.state)
        self.run = self.code.run

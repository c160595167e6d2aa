"""The first call of a compiled function is made beside the kernels that it was compiled of.

A compiler has faults, too: TorchInductor was found to write over what it still needed. Where the
first results aren't those of the kernels up to rounding, the kernels stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from refluid.runtime.recorded.simplify import UNWRITTEN

_log = logging.getLogger("refluid")

_Function = Callable[..., Any]
# How far from the kernels' results is still rounding: as many times as these change where all that
# goes in, and all that kernels make of it, is changed by its last bits, and so many times the
# spacing of numbers at the largest one.
_NUDGED, _SPACINGS = 30.0, 100.0
_LAST_BITS = 4.0


def proven(module: GraphModule, function: _Function, written: Collection[int]) -> _Function:
    """The function from its second call on; the first also runs the module, which computes the
    same in eager kernels, and chooses it for good where both differ.

    written: which arguments are written over.
    """

    def first(*given: Tensor) -> Any:
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return function(*given)  # nothing can be looked at before the graph is run
        before, again = (
            [one.clone() if n in written else one for n, one in enumerate(given)] for _ in range(2)
        )
        nudged = [one.clone() for one in given]
        others = [*_Nudging(module).run(*nudged), *(nudged[n] for n in written)]
        wanted = [*module(*again), *(again[n] for n in written)]
        results = function(*given)
        found = [*results, *(given[n] for n in written)]
        compared = zip(found, wanted, others, strict=True)
        if all(n in bare or _agree(*three) for n, three in enumerate(compared)):
            chosen[0] = function
            return results
        chosen[0] = module
        _log.warning(
            "compiled code computed something else than the kernels that it was compiled of, which "
            "are used instead: %s",
            " ".join(_kernels(module)),
        )
        for n in written:
            given[n].copy_(before[n])
        return module(*given)

    bare = _bare(module)
    chosen: list[_Function] = [first]

    def call(*given: Tensor) -> Any:
        return chosen[0](*given)

    return call


def _bare(module: GraphModule) -> frozenset[int]:
    """Which results are memory that nothing is written to, as that for what is drawn later."""
    (output,) = [node for node in module.graph.nodes if node.op == "output"]
    made = output.args[0] if isinstance(output.args[0], (list, tuple)) else output.args
    return frozenset(
        number
        for number, node in enumerate(made)
        if isinstance(node, Node) and _name(node) in UNWRITTEN and set(node.users) == {output}
    )


class _Nudging(Interpreter):
    """Runs a graph with the last bits of all numbers changed, of those that it is given too."""

    def run_node(self, n: Node) -> Any:
        """The node's results, changed where they lie."""
        found = super().run_node(n)
        for one in found if isinstance(found, (list, tuple)) else [found]:
            if isinstance(one, Tensor) and one.is_floating_point() and n.op != "output":
                _nudge_(one)
        return found


def _nudge_(tensor: Tensor) -> None:
    if tensor.is_meta:
        return
    if any(
        step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride(), strict=True)
    ):
        return  # elements share memory
    draws = torch.Generator(tensor.device).manual_seed(tensor.numel())
    noise = torch.empty_like(tensor).uniform_(-1, 1, generator=draws)
    tensor.mul_(noise.mul_(_LAST_BITS * torch.finfo(tensor.dtype).eps).add_(1))


def _agree(found: Tensor, wanted: Tensor, nudged: Tensor) -> bool:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    if not wanted.is_floating_point() or not wanted.numel():
        return torch.equal(found, wanted)
    allowed = _NUDGED * _apart(nudged, wanted)
    allowed += _SPACINGS * torch.finfo(wanted.dtype).eps * _largest(wanted)
    apart = _apart(found, wanted, odd=torch.inf)
    return bool(apart <= allowed)


def _apart(one: Tensor, other: Tensor, odd: float = 0.0) -> float:
    """The largest difference; `odd` where one isn't finite and the other is something else."""
    same = (one == other) | (one.isnan() & other.isnan())
    apart = (one.double() - other.double()).abs().nan_to_num(odd, odd)
    return float(apart.masked_fill_(same, 0.0).max())


def _largest(tensor: Tensor) -> float:
    return float(tensor.double().abs().nan_to_num(0.0, 0.0).max())


def _kernels(module: GraphModule) -> Sequence[str]:
    names = (_name(node) for node in module.graph.nodes if node.op == "call_function")
    return list(dict.fromkeys(name for name in names if name != "getitem"))


def _name(node: Node) -> str:
    return getattr(node.target, "__name__", str(node.target)).partition(".")[0]

"""Graphs compiled by TorchInductor, which is imported at the first of them."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from refluid.kernels.holders import laid_out_by
from refluid.kernels.parts import part

_log = logging.getLogger("refluid")

_COMPILE = "torch._inductor.compile_fx.compile_fx"
_INNER = "torch._inductor.compile_fx.compile_fx_inner"
_TRACING = "torch._guards.TracingContext.try_get"
_FORCE = "torch._inductor.inductor_prims.force_stride_order"
_SAYS = "torch._inductor.ir"
_LOWERED = "torch._inductor.lowering.lowerings"
_CALLED = "torch._inductor.lowering.fallbacks"
_TABLE = "torch._inductor.decomposition.select_decomp_table"

# From so many nodes on a graph's kernels are called by C++ rather than by Python: of fewer, to hand
# tensors over takes as long as is won.
_MANY = 16
_BY_CPP = {"cpp_wrapper": True}
# Results over what isn't read any more: TorchInductor then also reuses the whole that this is a
# part of (what `cat` made), while the result is still read.
_APART = {"inplace_buffers": False}

GraphFunction = Callable[..., Any]


class LaidOtherwiseError(RuntimeError):
    """The compiler lays a result in another order than it has to lie in."""


def compile_graph(
    module: GraphModule, examples: list[Tensor], results: Sequence[Tensor] = ()
) -> GraphFunction:
    """TorchInductor's function for a graph; it keeps what it made on disk for later processes.

    results: laid as the function's have to be, LaidOtherwiseError where one isn't; none: as it
    likes.
    """
    compile_fx, inner, apart = part(_COMPILE, None), part(_INNER, None), _apart()
    if compile_fx is None:
        raise RuntimeError(f"this torch has no {_COMPILE}")
    compiled = partial(_compiled, compile_fx, inner, (examples, results), apart)
    ordering = part(_FORCE, None)
    targets = [node.target for node in module.graph.nodes]
    many = sum(target is not ordering for target in targets) >= _MANY
    if many and all(one.is_cpu for one in examples) and not any(map(_gives_list, targets)):
        try:
            with _unsaid():
                return compiled(copy.deepcopy(module), _BY_CPP)
        except LaidOtherwiseError:
            raise
        except Exception as error:
            _log.info("kernels are called by Python, for C++ can't call all of them: %s", error)
    return compiled(module, {})


def _compiled(
    compile_fx: GraphFunction,
    inner: GraphFunction | None,
    laid: tuple[list[Tensor], Sequence[Tensor]],
    apart: Mapping[Any, GraphFunction] | None,
    module: GraphModule,
    settings: Mapping[str, Any],
) -> GraphFunction:
    examples, results = laid
    options: dict[str, Any] = {"decompositions": apart}
    options["config_patches"] = {**_APART, **settings}
    found: list[GraphFunction | None] = []
    otherwise: list[int] = []

    def compile_inner(graph: GraphModule, inputs: Sequence[Any], **how: Any) -> Any:
        assert inner is not None
        made = inner(graph, inputs, **how)
        found.append(_entered(made) if len(inputs) == len(examples) else None)
        otherwise.extend(_laid_otherwise(made, results))
        return made

    if inner is not None:
        options["inner_compile"] = compile_inner
    with torch.no_grad():
        function: GraphFunction = compile_fx(module, examples, **options)
    if otherwise:
        n = otherwise[0]
        raise LaidOtherwiseError(f"result {n} would not have strides {tuple(results[n].stride())}")
    direct = found[0] if len(found) == 1 else None
    return direct or function


@contextmanager
def _unsaid() -> Iterator[None]:
    """torch warns of what C++ calls through the dispatcher: stand-ins without memory, mostly."""
    log = logging.getLogger(_SAYS)
    former = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(former)


def _laid_otherwise(made: Any, results: Sequence[Tensor]) -> Iterator[int]:
    """Which of the results that are no views of others lie otherwise, as far as torch tells."""
    about = _metadata()
    try:
        first = about.num_mutated_inp_runtime_indices
        strides = made.output_strides[first:]
        fresh = _fresh(about)
    except (AttributeError, TypeError):  # of another torch
        return
    for n, (wanted, its) in enumerate(zip(results, strides, strict=False)):
        if fresh[n] and its is not None and not laid_out_by(wanted, [int(one) for one in its]):
            yield n


def _entered(made: Any) -> GraphFunction | None:
    """The function itself, without what autograd's wrapper does around it for others.

    None where that has anything to do: results that are views, inputs to write afterwards.
    """
    about = _metadata()
    function: Any = getattr(made, "current_callable", None)
    try:
        left = about.num_mutated_inp_runtime_indices + about.num_intermediate_bases
        if not all(_fresh(about)) or left or about.tokens or not callable(function):
            return None
    except AttributeError:  # of another torch
        return None
    return lambda *given: function([*given])


def _metadata() -> Any:
    """What autograd's wrapper knows of the graph that is being compiled; None of another torch."""
    return getattr(part(_TRACING, lambda: None)(), "fw_metadata", None)


def _fresh(about: Any) -> list[bool]:
    """Of each result, whether it is no view of another or of what is given."""
    return [one.output_type.name == "non_alias" for one in about.output_info]


def _apart() -> Mapping[Any, GraphFunction] | None:
    """What kernels consist of, with those that TorchInductor would call as they are: it makes one
    pass of a sum and its activation by itself, and of what is around them too."""
    select, add_relu = part(_TABLE, None), part("torch.ops.aten._add_relu", None)
    if select is None or add_relu is None:
        return None
    addmm = torch.ops.aten.addmm.default
    return {**select(), add_relu.Tensor: _sum_and_relu, addmm: _product_and_sum}


def _sum_and_relu(x: Tensor, y: Tensor, *, alpha: float = 1) -> Tensor:
    biased = _is_bias(y) and alpha == 1
    return torch.relu(_biased(x, y) if biased else torch.add(x, y, alpha=alpha))


def _product_and_sum(bias: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """A product whose bias comes with what follows, in a pass that is there in any case."""
    if not _is_bias(bias) or beta != 1 or alpha != 1:
        return NotImplemented
    return _biased(torch.mm(a, b), bias)


def _is_bias(tensor: Tensor) -> bool:
    """Of bfloat16 a product and a sum would each be rounded."""
    return tensor.is_cpu and tensor.dim() == 1 and tensor.dtype in (torch.float32, torch.float64)


def _biased(x: Tensor, bias: Tensor) -> Tensor:
    """x + bias to the bit, which TorchInductor doesn't put back into one call with a product."""
    return torch.sub(x, torch.neg(bias))


def _gives_list(target: Any) -> bool:
    """Whether a kernel that TorchInductor calls as it is gives a list: C++ that calls it takes a
    list of one for what is in it, and ends the process."""
    returns = getattr(getattr(target, "_schema", None), "returns", ())
    if not any(str(one.type) == "List[Tensor]" and one.alias_info is None for one in returns):
        return False
    lowered, called = part(_LOWERED, {}), part(_CALLED, set())
    return target not in lowered or target in called


def in_order() -> GraphFunction:
    """For graphs: brings a tensor into the order of these strides. RuntimeError where torch has
    nothing that does."""
    found: GraphFunction | None = part(_FORCE, None)
    if found is None:
        raise RuntimeError(f"this torch has no {_FORCE}")
    return found


def without_order(module: GraphModule) -> GraphModule:
    """A copy of the graph without what `in_order` has brought in."""
    found, ordering = copy.deepcopy(module), part(_FORCE, None)
    for node in list(found.graph.nodes):
        if node.op == "call_function" and node.target is ordering:
            node.replace_all_uses_with(node.args[0])
            found.graph.erase_node(node)
    found.recompile()
    return found


def without_memory() -> AbstractContextManager[Any]:
    """Within it tensors are made without memory, where torch can."""
    mode = part("torch._subclasses.fake_tensor.FakeTensorMode", nullcontext)
    made: AbstractContextManager[Any] = mode()
    return made

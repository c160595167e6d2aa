"""The compiled tier: runs of recorded kernels become functions made by TorchInductor."""

from __future__ import annotations

import logging
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from refluid.kernels.holders import laid_out_alike
from refluid.kernels.inductor import compile_graph, in_order, without_memory, without_order
from refluid.kernels.rows.lookup import check_rows
from refluid.runtime.recorded.blaming import blaming
from refluid.runtime.recorded.graph import Compiled, Kernel, Part, Value
from refluid.runtime.recorded.proving import proven
from refluid.runtime.trees import mapped

_log = logging.getLogger("refluid")

# Fewer kernels than this are called one by one: entering a compiled function costs some calls.
_ENOUGH = 4
# Runs on which the compiler may fail before the rest of a step stays as it is.
_HOPELESS = 8
# torch's own kernels for these are the fastest there are, and write to what they are given; of
# oneDNN's products TorchInductor takes only those by constants.
_NAMES = """
    _fused_sgd_ _fused_adam_ _fused_adagrad_ _linear_pointwise softmax_with_top softmax_with_top_
    take_at_labels put_at_labels sigmoid_entropy sigmoid_entropy_gradient _mkl_linear
    _mkl_reorder_linear_weight panel_product lay_panels laid_product dropped kept lstm_steps
    lstm_gradients gru_steps gru_gradients filter_gradient few_rows_product spanned_product
    mixed_product mixed_gradient has_infinite crf_likelihoods crf_slopes crf_paths
"""
_LEFT = frozenset(_NAMES.split())
# Compiled, it ends the process where an id is no row: ids are looked at before, or it is left.
LOOKUP = "embedding"

# Longer runs, of loops over time steps, are cut at products and where the number of a step is used,
# so that what repeats is compiled once.
LONG = 256
_PRODUCTS = """
    mm addmm bmm baddbmm select
"""
_CUT = frozenset(_PRODUCTS.split())
_WRITTEN = "refluid.written"  # of a graph: which arguments it writes over

CompiledFunction = Callable[..., Any]
# Those that may be compiled, with the values that have their ids, and no others.
Lookups = Mapping[Part, Value]
Compiler = Callable[[GraphModule, list[Tensor], list[Tensor]], CompiledFunction]


class _Later:
    """What the steps after some do with the results of these.

    bound: memory that they write, or give to code that may, by one value before they read it by
    another one.
    """

    def __init__(self) -> None:
        self.bound: set[int] = set()
        self._read: defaultdict[int | None, set[Value]] = defaultdict(set)

    def reads(self, value: Value) -> bool:
        """Whether one of them does."""
        return value in self._read[value.storage]

    def precede(self, steps: Sequence[Part]) -> None:
        """Takes in steps that come before."""
        for step in reversed(steps):
            uses = set(step.uses)
            its = uses.union(step.outs)
            for place in step.writes if isinstance(step, Kernel) else {v.storage for v in uses}:
                if place is not None and not self._read[place] <= its:
                    self.bound.add(place)
            for value in uses:
                self._read[value.storage].add(value)

    def behind(self, steps: Sequence[Part]) -> _Later:
        """What these steps, and then the later ones, do."""
        found = _Later()
        found.bound |= self.bound
        found._read.update({place: set(values) for place, values in self._read.items()})
        found.precede(steps)
        return found


def compile_steps(
    steps: Sequence[Part],
    compiler: Compiler = compile_graph,
    lookups: Lookups = MappingProxyType({}),
) -> list[Part | Compiled]:
    """The steps, with compiled functions in the place of the kernels between two lines.

    Of kernels that the compiler fails on each half is tried by itself. Raises what it raised
    first where it fails on all.
    """
    trying = _Trying(_once(compiler), lookups)
    later, done = _Later(), list[list[Part | Compiled]]()
    for run in reversed(_runs(steps, lookups)):
        done.append(trying.on(run, later))
        later.precede(run)
    failures = trying.failures
    if failures and not any(isinstance(one, Compiled) for part in done for one in part):
        raise failures[0]
    if failures:
        _log.info("a part of a step stays recorded; it could not be compiled: %s", failures[0])
    return [one for part in reversed(done) for one in part]


def _once(compiler: Compiler) -> Compiler:
    """The compiler, which is asked once for graphs that are equal, of tensors that lie alike."""
    made: dict[Any, CompiledFunction] = {}

    def compile_once(module: GraphModule, ins: list[Tensor], outs: list[Tensor]) -> Any:
        key = str(module.graph), *map(_lie, (*ins, *outs))
        if key not in made:
            kernels = without_order(module)  # which the compiler may take apart
            made[key] = proven(kernels, compiler(module, ins, outs), module.meta[_WRITTEN])
        return made[key]

    return compile_once


def _lie(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device


@dataclass
class _Trying:
    """Has runs compiled, and keeps what the compiler failed on."""

    compiler: Compiler
    lookups: Lookups
    failures: list[Exception] = field(default_factory=list)

    def on(self, run: list[Any], later: _Later) -> list[Part | Compiled]:
        """The run as one compiled function, or as several and kernels between."""
        ins, outs = _ins(run), _outs(run, later)
        whole = len(run) < _ENOUGH or is_left(run[0], self.lookups) or _alias(run, ins)
        if whole or len(self.failures) >= _HOPELESS:
            return run
        try:
            module = _module(run, ins, outs, later.bound)
            function = self.compiler(module, _examples(ins), _examples(outs))
        except Exception as error:
            self.failures.append(error)
        else:
            named = blaming(function, module, [kernel.op for kernel in run])
            return [*_checks(run, self.lookups), Compiled(named, ins, list(outs))]
        first, second = run[: len(run) // 2], run[len(run) // 2 :]
        return self.on(first, later.behind(second)) + self.on(second, later)


def _checks(run: Sequence[Kernel], lookups: Lookups) -> list[Compiled]:
    """What says, before the lookups in this run are made, which id is no row."""
    found = dict[tuple[Value, int], Compiled]()
    for kernel in run:
        if kernel in lookups:
            table, ids = kernel.args[0], lookups[kernel]
            key = ids, table.layout.shape[0]
            found.setdefault(key, Compiled(check_rows, [table, ids], [], kernel.op))
    return list(found.values())


def _examples(values: Sequence[Value]) -> list[Tensor]:
    """Tensors of the same layouts, without memory."""
    with without_memory():
        return [value.layout.empty() for value in values if value.layout is not None]


def _runs(steps: Sequence[Part], lookups: Container[Part] = ()) -> list[list[Any]]:
    """Steps that belong together, in order."""
    runs: list[list[Part]] = []
    together = False
    for step in steps:
        joins = isinstance(step, Kernel) and not is_left(step, lookups)
        if joins and together:
            runs[-1].append(step)
        else:
            runs.append([step])
        together = joins
    return [part for run in runs for part in (_cut(run) if len(run) > LONG else [run])]


def _cut(run: list[Any]) -> list[list[Any]]:
    """The run in parts: kernels at which it is cut, and what lies between two of them."""
    parts: list[list[Any]] = []
    for alone, group in groupby(run, _cuts):
        found = list(group)
        parts += [[kernel] for kernel in found] if alone else [found]
    return parts


def _cuts(kernel: Kernel) -> bool:
    return kernel.name in _CUT


def is_left(step: Part, lookups: Container[Part] = ()) -> bool:
    """Whether it can't be compiled; lookups only if they are among these."""
    if not isinstance(step, Kernel) or step.draws:
        return True
    return step.name in _LEFT or (step.name == LOOKUP and step not in lookups)


def _ins(kernels: Sequence[Kernel]) -> list[Value]:
    made: set[Value] = set()
    ins: dict[Value, None] = {}
    for kernel in kernels:
        ins.update(dict.fromkeys(value for value in kernel.uses if value not in made))
        made.update(out for out in kernel.outs if out is not None)
    return list(ins)


def _outs(kernels: Sequence[Kernel], later: _Later) -> list[Value]:
    made = (out for kernel in kernels for out in kernel.outs if out is not None)
    given = set(_ins(kernels))
    return [value for value in dict.fromkeys(made) if later.reads(value) and value not in given]


def _alias(kernels: Sequence[Kernel], ins: Sequence[Value]) -> bool:
    """Whether it writes memory that it is given twice, which examples do not show."""
    written = frozenset().union(*(kernel.writes for kernel in kernels))
    given = Counter(value.storage for value in ins)
    return any(given[place] > 1 for place in written)


def _module(
    kernels: Sequence[Kernel],
    ins: Sequence[Value],
    outs: Sequence[Value],
    bound: AbstractSet[int],
) -> GraphModule:
    graph = Graph()
    nodes: dict[Value, Node] = {
        value: graph.placeholder(f"given{number}") for number, value in enumerate(ins)
    }

    def leaf(one: Any) -> Any:
        return nodes[one] if isinstance(one, Value) else one

    for kernel in kernels:
        args, kwargs = mapped((kernel.args, kernel.kwargs), leaf)
        node = graph.call_function(kernel.func, args, kwargs)
        for position, value in enumerate(kernel.outs):
            if value is not None:
                parts = (node, position)
                several = kernel.makes_several
                nodes[value] = graph.call_function(operator.getitem, parts) if several else node
    graph.output(tuple(nodes[value] for value in outs))
    module = GraphModule(torch.nn.Module(), graph)
    written = frozenset().union(*(kernel.writes for kernel in kernels))
    module.meta[_WRITTEN] = [n for n, value in enumerate(ins) if value.storage in written]
    _lay(module, ins, outs, written, bound)
    return module


def _lay(
    module: GraphModule,
    ins: Sequence[Value],
    outs: Sequence[Value],
    written: AbstractSet[int],
    bound: AbstractSet[int],
) -> None:
    """Has results in the order that they were recorded in, where the compiler may choose another.

    It doesn't know kernels' choices (of one image both orders of a convolution's result are the
    same to it), lays what it takes apart as it likes, and makes anew what kernels write over.
    RuntimeError where results that share memory would lie apart and a later step could tell.
    """
    with torch.no_grad():
        found = module(*_examples(ins))
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    nodes, given = list(output.args[0]), {value.storage for value in ins}
    values = Counter(value.storage for value in outs)
    for n, (value, *pair) in enumerate(zip(outs, found, _examples(outs), strict=True)):
        assert value.layout is not None and value.storage is not None  # examples are of tensors
        lies, shared = laid_out_alike(*pair), values[value.storage] > 1
        if value.storage in given:
            if not lies:
                raise RuntimeError("what is given lies in another order than the compiler takes it")
        elif not lies or value.storage in written or (not shared and value.layout.is_ordered):
            if shared and value.storage in bound:
                raise RuntimeError("results share memory, and may lie in another order")
            with module.graph.inserting_before(output):
                strides = value.layout.stride
                nodes[n] = module.graph.call_function(in_order(), (nodes[n], strides))
    output.args = (tuple(nodes),)
    module.recompile()

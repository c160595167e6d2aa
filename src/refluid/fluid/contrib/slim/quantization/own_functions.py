"""conv2d(quantized(x), ..) -> conv2d(quantized(f(x)), ..), f being a function of the user's.

And f's gradient between the gradient operators of those that read it and x, with the updates of
f's own parameters: PACT's thresholds, say. f is called once for each variable, which it sees as
NAME_tmp_input; names that it makes begin with NAME_.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from refluid import build
from refluid.autodiff.gradients import gradients
from refluid.core import names
from refluid.core.scope import Scope, global_scope
from refluid.fluid.graphs.ir_graph import IrGraph, IrOpNode, IrVarNode
from refluid.ir.attributes import ROLE_VAR, SubBlock
from refluid.ir.defaults import program_guard
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ir.program import Program, copy_op
from refluid.ir.variable import Variable

OwnFunction = Callable[[Any], Any]
# A gradient operator, and the node of the gradient that it gives; None where it doesn't.
GradientOf = tuple[IrOpNode, IrVarNode | None]


class OwnFunctions:
    """What is done with activations and weights before they are quantised, or for it.

    before, instead: functions of one's own, for weights (True) and for others (False).
    optimizer_func: gives the optimizer of parameters that they make. executor: starts these.
    Raises TypeError for what can't be called.
    """

    def __init__(
        self,
        before: dict[bool, OwnFunction | None],
        instead: dict[bool, OwnFunction | None],
        optimizer_func: Callable[[], Any] | None,
        executor: Any,
        scope: Scope | None,
    ) -> None:
        for one in (*before.values(), *instead.values(), optimizer_func):
            if one is not None and not callable(one):
                raise TypeError(
                    "QuantizationTransformPass: functions of one's own must be functions, "
                    f"not {type(one).__name__}"
                )
        self._before, self._instead = before, instead
        self._optimizer_func, self._executor = optimizer_func, executor
        self._scope = scope

    def quantize(self, is_weight: bool) -> bool:
        """Whether a function stands in the place of quantisation."""
        return self._instead[is_weight] is not None

    def applied(
        self, graph: IrGraph, var: IrVarNode, is_weight: bool, ends: Sequence[GradientOf]
    ) -> IrVarNode:
        """What the functions make of a variable; the variable where there are none."""
        functions = [one for one in (self._before[is_weight], self._instead[is_weight]) if one]
        if not functions:
            return var
        made = _Calls(var, functions)
        given = [(op, node) for op, node in ends if node is not None]
        if len(given) < len(ends) and made.parameters:
            raise ValueError(
                f"QuantizationTransformPass: no gradient reaches {made.parameters[0].name}, a "
                f"parameter of a function of one's own, as {var.name()} has stop_gradient; set "
                f"{var.name()}.stop_gradient = False before minimize"
            )
        made.differentiate(len(given))
        self._update(made)
        self._start(made.startup)
        return made.put_into(graph, given)

    def _update(self, made: _Calls) -> None:
        """Appends the updates of the parameters that have gradients."""
        if not made.pairs:
            return
        if self._optimizer_func is None:
            raise ValueError(
                f"QuantizationTransformPass: {made.pairs[0][0].name} is a parameter of a function "
                "of one's own, and nothing trains it; give optimizer_func, a function that "
                "returns an optimizer"
            )
        with made.making():
            self._optimizer_func().apply_gradients(made.pairs)

    def _start(self, startup: Program) -> None:
        """Gives parameters their first values, unless the scope has them already."""
        if not startup.global_block().ops:
            return
        if self._executor is None:
            raise ValueError(
                "QuantizationTransformPass: a function of one's own makes parameters, and nothing "
                "starts them; give executor, a fluid.Executor"
            )
        scope = self._scope or global_scope()
        first = Scope()
        self._executor.run(startup, scope=first)
        for var in startup.list_vars():
            found = scope.find_var(var.name)
            if var.persistable and (found is None or not found.get_tensor()._is_initialized()):
                value = np.array(first.var(var.name).get_tensor())
                scope.var(var.name).get_tensor().set(value, self._executor.place)


def ends_of(name: str, readers: Sequence[IrOpNode], ops: Sequence[IrOpNode]) -> list[GradientOf]:
    """The gradient operators of those that read a variable, with the gradient that each gives."""
    made = {one for op in readers for one in op.output_arg_names()}
    found: list[GradientOf] = []
    for op in ops:
        by = {one.split(GRAD)[0] for one in op.input_arg_names() if GRAD in one}
        if op.name().endswith("_grad") and by & made:
            node = next((one for one in op.outputs if one.name().split(GRAD)[0] == name), None)
            found.append((op, node))
    return found


class _Calls:
    """A program of functions called with one variable, and of their gradients."""

    def __init__(self, var: IrVarNode, functions: Sequence[OwnFunction]) -> None:
        self._var = var
        self._names = names.UniqueNameGenerator(f"{var.name()}_")
        self._main, self.startup = Program(), Program()
        self.pairs: list[tuple[Variable, Variable]] = []
        with self.making():
            self._given = self._like("_tmp_input", stop_gradient=False)
            self._out: Any = self._given
            for function in functions:
                self._out = function(self._out)
                if not isinstance(self._out, Variable):
                    raise TypeError(
                        f"QuantizationTransformPass: a function of one's own must return a "
                        f"variable, not {type(self._out).__name__}"
                    )
        # By reader: the gradient of what the functions give, and that of what they are given.
        self._gradients: list[tuple[Variable, Variable]] = []
        self.parameters = [one for one in self._main.all_parameters() if one.trainable]

    @contextmanager
    def making(self) -> Iterator[None]:
        """What is made within belongs to this program, by names of its own."""
        with program_guard(self._main, self.startup), names.guard(self._names):
            yield

    def _like(self, ending: str, stop_gradient: bool = True) -> Variable:
        node = self._var
        return self._main.global_block().create_var(
            name=node.name() + ending,
            type=node.type(),
            shape=node.shape(),
            dtype=node.dtype(),
            stop_gradient=stop_gradient,
        )

    def differentiate(self, count: int) -> None:
        """Appends the gradients: the variable's by each of `count` readers, parameters' by all."""
        parameters = self.parameters
        found: list[list[Variable]] = [[] for _ in parameters]
        with self.making():
            for number in range(count):
                flows = self._main.global_block().create_var(
                    name=f"{self._out.name}@GRAD@{number}",
                    shape=self._out.shape,
                    dtype=self._out.dtype,
                )
                own, *others = gradients([self._out], [self._given, *parameters], [flows])
                if own is None:
                    raise ValueError(
                        f"QuantizationTransformPass: what a function of one's own returns has no "
                        f"gradient by its argument {self._given.name}"
                    )
                self._gradients.append((flows, own))
                for some, one in zip(found, others, strict=True):
                    some += [] if one is None else [one]
            pairs = zip(parameters, found, strict=True)
            self.pairs = [(param, self._sum(param, some)) for param, some in pairs if some]

    def _sum(self, parameter: Variable, parts: list[Variable]) -> Variable:
        """A parameter's gradient; the operator that completes it says so."""
        block = self._main.global_block()
        total = parts[0]
        if len(parts) > 1:
            with self._main.backward_role_guard():
                total = build.op("sum", {"X": parts})
        last = next(op for op in reversed(block.ops) if total.name in op.output_arg_names)
        last.set_attr(ROLE_VAR, [parameter.name, total.name])
        return total

    def put_into(self, graph: IrGraph, readers: Sequence[tuple[IrOpNode, IrVarNode]]) -> IrVarNode:
        """Copies the operators into a graph, and ties them to what is there; the result's node."""
        latest = {self._given.name: self._var}
        ends: dict[str, IrVarNode] = {}
        for (op, node), (flows, own) in zip(readers, self._gradients, strict=True):
            between = graph.create_var_node(
                flows.name, node.type(), self._out.shape, self._out.dtype
            )
            graph.update_output_link(node, between, op)
            latest[flows.name], ends[own.name] = between, node
        for made in self._main.global_block().ops:
            _copy(graph, made, latest, ends)
        return latest[self._out.name]


def _copy(
    graph: IrGraph, op: Operator, latest: dict[str, IrVarNode], ends: dict[str, IrVarNode]
) -> None:
    """Adds an operator of a program with its edges.

    latest: by name the node that was written last. ends: nodes that are there for what is written.
    """
    if any(isinstance(one, SubBlock) for one in op.all_attrs().values()):
        raise NotImplementedError(
            f"QuantizationTransformPass: {op.type}{op.made_at} in a function of one's own; "
            "loops and branches have no place in a graph"
        )
    node = IrOpNode(graph.graph.add(op.type, copy_op(op, graph.graph.block)))
    for name in _named(op.input_arg_names):
        if name not in latest:
            latest[name] = _version(graph, op, name)
        graph.link_to(latest[name], node)
        node.rename_input(name, latest[name].name())
    for name in _named(op.output_arg_names):
        latest[name] = ends[name] if name in ends else _version(graph, op, name)
        graph.link_to(node, latest[name])
        node.rename_output(name, latest[name].name())


def _named(given: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(given) if name != EMPTY]


def _version(graph: IrGraph, op: Operator, name: str) -> IrVarNode:
    block = graph.graph.block
    var = block.find_var_recursive(name)
    return IrVarNode(graph.graph.add(name, var or op.block.var(name).copy_to(block)))

"""`GraphWrapper`: a program with names for what is fed and fetched."""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refluid.build import apply
from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid import io
from refluid.fluid.compiler import CompiledProgram
from refluid.fluid.contrib.slim.graph.values import load_values
from refluid.fluid.contrib.slim.graph.wrapped import OPTIMIZER_OPS, OpWrapper, VarWrapper
from refluid.fluid.executor import Executor, global_scope, scope_guard
from refluid.fluid.graphs.operations import flops_of
from refluid.ir.defaults import program_guard
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable
from refluid.ops.registry import find

__all__ = ["OPTIMIZER_OPS", "GraphWrapper", "OpWrapper", "VarWrapper"]

Nodes = Mapping[str, str] | Iterable[tuple[str, str]]


class GraphWrapper:
    """A program. in_nodes, out_nodes: (title, name of a variable) of what is fed and fetched."""

    def __init__(
        self, program: Program | None = None, in_nodes: Nodes = (), out_nodes: Nodes = ()
    ) -> None:
        self.program = Program() if program is None else program
        self.in_nodes, self.out_nodes = OrderedDict(in_nodes), OrderedDict(out_nodes)
        self.compiled_graph: CompiledProgram | None = None

    # -- what there is --------------------------------------------------------

    def vars(self) -> list[VarWrapper]:
        return [VarWrapper(var, self) for var in self.program.list_vars()]

    def var(self, name: str) -> VarWrapper:
        """The variable of that name; ValueError where there is none."""
        for block in self.program.blocks:
            if name in block.vars:
                return VarWrapper(block.vars[name], self)
        raise ValueError(f"the graph has no variable {name!r}")

    def ops(self) -> list[OpWrapper]:
        return [OpWrapper(op, self) for block in self.program.blocks for op in block.ops]

    def all_parameters(self) -> list[VarWrapper]:
        return [VarWrapper(var, self) for var in self.program.all_parameters()]

    def is_parameter(self, var: VarWrapper) -> bool:
        return isinstance(var._var, Parameter)

    def is_persistable(self, var: VarWrapper) -> bool:
        return bool(var._var.persistable)

    def persistables(self) -> list[str]:
        """Names of what outlives a step."""
        return [var.name() for var in self.vars() if self.is_persistable(var)]

    def pre_ops(self, op: OpWrapper) -> list[OpWrapper]:
        """The operators that write what `op` reads."""
        read = set(op.all_inputs())
        return [one for one in self.ops() if not read.isdisjoint(one.all_outputs())]

    def next_ops(self, op: OpWrapper) -> list[OpWrapper]:
        """The operators that read what `op` writes."""
        written = set(op.all_outputs())
        return [one for one in self.ops() if not written.isdisjoint(one.all_inputs())]

    def get_param_by_op(self, op: OpWrapper) -> list[VarWrapper]:
        """The parameters that an operator reads or writes; ValueError where it has none."""
        found = dict.fromkeys([*op.all_inputs(), *op.all_outputs()])
        params = [var for var in found if self.is_parameter(var)]
        if not params:
            raise ValueError(f"operator {op.type()} has no parameters")
        return params

    def numel_params(self) -> int:
        """Elements of all parameters."""
        return sum(math.prod(var.shape()) for var in self.all_parameters())

    def flops(self, only_conv: bool = False) -> int:
        """Floating-point operations of a forward pass over one row: see `counting`."""
        return flops_of(self.program, only_conv=only_conv)

    # -- other graphs ---------------------------------------------------------

    def clone(self, for_test: bool = False) -> GraphWrapper:
        return GraphWrapper(self.program.clone(for_test), self.in_nodes, self.out_nodes)

    def compile(
        self,
        for_parallel: bool = True,
        for_test: bool = False,
        mem_opt: bool = False,
    ) -> None:
        """Has `SlimGraphExecutor` run it compiled: replicated over all places where it trains.

        for_test and mem_opt change nothing: plans drop what is dead in any case.
        """
        compiled = CompiledProgram(self.program)
        if for_parallel and "loss" in self.out_nodes:
            compiled = compiled.with_data_parallel(self.out_nodes["loss"])
        self.compiled_graph = compiled

    def get_optimize_graph(
        self,
        optimizer: Any,
        place: Place,
        scope: Scope,
        no_grad_var_names: Sequence[str] = (),
    ) -> GraphWrapper:
        """The graph with gradients and updates by an optimizer, whose state is made in the scope.

        ValueError unless one of the out nodes is titled loss (or cost).
        """
        graph, startup = self.clone(), Program()
        title = next((one for one in ("loss", "cost") if one in graph.out_nodes), None)
        if title is None:
            raise ValueError("one of the fetches has to be titled 'loss': what is to be minimised")
        loss = graph.var(graph.out_nodes[title])._var
        with program_guard(graph.program, startup):
            _for_program(optimizer, graph).minimize(loss, no_grad_set=set(no_grad_var_names))
        with scope_guard(scope):
            Executor(place).run(startup)
        return graph

    def merge(self, graph: GraphWrapper) -> None:
        """Puts the operators of a teacher before its own; nothing of the teacher learns.

        Variables of the same name are one: what is fed. Other names must differ.
        """
        mine, other = self.program.global_block(), graph.program.global_block()
        for var in graph.program.list_vars():
            if var.name in mine.vars:
                continue
            made = mine._clone_variable(var, force_persistable=False)
            made.stop_gradient = True
        for number, op in enumerate(other.ops):
            slots = [
                {slot: [mine.var(name) for name in side(slot)] for slot in slots if side(slot)}
                for side, slots in ((op.input, op.input_names), (op.output, op.output_names))
            ]
            attrs = {name: op.attr(name) for name in op.attr_names}
            apply(op.type, slots[0], slots[1], attrs, block=mine, index=number)

    # -- after parameters have got other shapes ---------------------------------

    def infer_shape(self) -> None:
        """Infers the shapes of what the operators make anew."""
        for op in self.program.global_block().ops:
            definition = find(op.type)
            if definition is not None and not op.has_sub_blocks:
                definition.infer(op)

    def resize(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Declares variables with these shapes, and what follows from them: groups of depthwise
        convolutions, shapes of results."""
        depthwise = [op for op in self.ops() if _is_depthwise(op)]
        each = [op.inputs("Filter")[0].shape()[0] // op.attr("groups") for op in depthwise]
        for name, shape in shapes.items():
            self.var(name).set_shape(shape)
        for op, filters in zip(depthwise, each, strict=True):
            op.set_attr("groups", op.inputs("Filter")[0].shape()[0] // filters)
        self.infer_shape()

    def update_param_shape(self, scope: Scope) -> None:
        """Declares parameters with the shapes that they have in the scope."""
        cells = {var.name(): scope.find_var(var.name()) for var in self.all_parameters()}
        for name, cell in cells.items():
            if cell is not None and cell.get_tensor()._is_initialized():
                self.var(name).set_shape(cell.get_tensor().shape())

    def update_groups_of_conv(self) -> None:
        """Gives depthwise convolutions as many groups as they have filters."""
        for op in self.ops():
            if op.type().removesuffix("_grad") == "depthwise_conv2d":
                op.set_attr("groups", op.inputs("Filter")[0].shape()[0])

    # -- files ----------------------------------------------------------------

    def save_model(self, path: str, exe: Any) -> None:
        """The program (`__model__`) and its parameters (`__params__`)."""
        ends = list(self.in_nodes.values()), list(self.out_nodes.values())
        self.save_infer_model(path, exe, ends)

    def save_infer_model(
        self, path: str, exe: Any, in_out: Any, program_only: bool = False
    ) -> None:
        """The part between named variables, as `save_inference_model` writes it.

        in_out: names of what is fed, names of what is fetched. program_only: `__model__.infer`
        beside the parameters that are there.
        """
        fed, fetched = in_out
        program = self.program.clone(for_test=True)
        io.save_inference_model(
            path,
            list(fed),
            [program.global_block().var(name) for name in fetched],
            getattr(exe, "exe", exe),
            program,
            model_filename="__model__.infer" if program_only else "__model__",
            params_filename="__params__",
            program_only=program_only,
        )

    def save_persistables(self, path: str, exe: Any) -> None:
        io.save_persistables(getattr(exe, "exe", exe), path, self.program)

    def load_persistables(self, path: str, exe: Any) -> None:
        """Loads the variables of which the folder has a file into the current scope.

        They are declared with the shapes that they have there: of a pruned model, smaller ones.
        """
        shapes = load_values(
            path, self.persistables(), global_scope(), getattr(exe, "exe", exe).place
        )
        self.resize(shapes)


def _is_depthwise(op: OpWrapper) -> bool:
    """Whether each group of a convolution, or of its gradient, has one channel."""
    kind = op.type().removesuffix("_grad")
    if kind not in ("conv2d", "depthwise_conv2d") or op.attr("groups") <= 1:
        return False
    return op.inputs("Filter")[0].shape()[1] == 1


def _for_program(optimizer: Any, graph: GraphWrapper) -> Any:
    """The optimizer as if nothing had been minimised yet, with the graph's learning rate."""
    own, rate = copy.copy(optimizer), optimizer._learning_rate
    own._accumulators, own._learning_rate_map = {}, {}
    if isinstance(rate, Variable):
        own._learning_rate_map[graph.program] = graph.var(rate.name)._var
    return own

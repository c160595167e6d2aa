"""A frozen network with weights of type int8, and with the operators' names of paddle-mobile."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.core.dtypes import VarType
from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid.contrib.slim.quantization.inserting import (
    SLOTS,
    ScopeValues,
    quantizable,
    quantized_inputs,
)
from refluid.fluid.graphs.ir_graph import IrGraph, IrVarNode


class ConvertToInt8Pass:
    """w -> w.int8: the whole numbers that the freezing pass left, as int8, for saving."""

    def __init__(
        self, scope: Scope, place: Place, quantizable_op_type: Sequence[str] | None = None
    ) -> None:
        if scope is None or place is None:
            raise ValueError("The scope and place cannot be set None.")
        self._values = ScopeValues(scope, place)
        self._types = quantizable(quantizable_op_type or list(SLOTS))

    def apply(self, graph: IrGraph) -> IrGraph:
        """Changes the graph, and returns it."""
        made: dict[str, IrVarNode] = {}
        for op in [one for one in graph.all_op_nodes() if one.name() in self._types]:
            for var in [one for one in quantized_inputs(op) if one.persistable()]:
                name = var.name()
                if name not in made:
                    value = self._values.array(name).astype("int8")
                    made[name] = self._values.kept(graph, f"{name}.int8", value, VarType.INT8)
                graph.update_input_link(var, made[name], op)
                if not var.outputs:
                    graph.safe_remove_nodes(var)
        return graph


class TransformForMobilePass:
    """fake_quantize_* -> quantize, fake_dequantize_* -> dequantize: paddle-mobile's names."""

    def apply(self, graph: IrGraph) -> IrGraph:
        """Changes the graph, which refluid can't run then, and returns it."""
        for op in graph.all_op_nodes():
            if op.name().startswith("fake_") and "quantize" in op.name():
                op.set_type("dequantize" if "dequantize" in op.name() else "quantize")
        return graph

"""elementwise_add(x, y) -> elementwise_add(rounded(x), rounded(y)), of operators without weights.

rounded is fake_quantize_dequantize_moving_average_abs_max: to whole numbers and back, by a scale
that follows the greatest values seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid.contrib.slim.quantization.inserting import ScopeValues, insert, like, skips
from refluid.fluid.graphs.ir_graph import IrGraph, IrOpNode, IrVarNode

_OTHERS = [
    *("pool2d", "elementwise_add", "elementwise_sub", "mean", "softmax", "argmax"),
    *("equal", "not_equal", "greater_equal", "greater_than", "less_equal", "less_than"),
    *("concat", "gather", "slice", "squeeze", "transpose", "reshape", "reshape2"),
    *("bilinear_interp", "nearest_interp", "trilinear_interp"),
]
_ROUNDED = "fake_quantize_dequantize_moving_average_abs_max"


class AddQuantDequantPass:
    """Has what these operators read rounded, also for their gradients, which pass it unchanged.

    Operators that read what is kept are left alone, and those made in a `name_scope` that contains
    one of `skip_pattern`. is_full_quantized: all that can be, whatever `quantizable_op_type` says.
    Raises ValueError for types that can't be.
    """

    _supported_quantizable_op_type: ClassVar[list[str]] = _OTHERS
    _activation_type: ClassVar[list[str]] = ["relu", "relu6", "leaky_relu", "tanh", "swish"]

    def __init__(
        self,
        scope: Scope | None = None,
        place: Place | None = None,
        moving_rate: float = 0.9,
        quant_bits: int = 8,
        skip_pattern: Sequence[str] = ["skip_quant"],
        quantizable_op_type: Sequence[str] = ["elementwise_add", "pool2d"],
        is_full_quantized: bool = False,
    ) -> None:
        self._values = ScopeValues(scope, place)
        self._moving_rate, self._bits = moving_rate, quant_bits
        self._skip_patterns = [skip_pattern] if isinstance(skip_pattern, str) else skip_pattern
        known = self._supported_quantizable_op_type + self._activation_type
        self._types = known if is_full_quantized else list(quantizable_op_type)
        unknown = [one for one in self._types if one not in known]
        if unknown:
            raise ValueError(f"quantizable_op_type: {unknown} can't be quantised; {known} can")

    def apply(self, graph: IrGraph) -> IrGraph:
        """Puts the operators into the graph, and returns it."""
        kept = {node.name() for node in graph.all_persistable_nodes()}
        made: dict[str, IrVarNode] = {}
        ops = graph.topology_sort()
        for op in [one for one in ops if one.name() in self._types]:
            if skips(op, self._skip_patterns) or any(var.name() in kept for var in op.inputs):
                continue
            for var in list(op.inputs):
                if var.name() not in made:
                    made[var.name()] = self._rounded(graph, var)
                graph.update_input_link(var, made[var.name()], op)
        gradients = {f"{one}_grad" for one in self._types}
        for op in [one for one in ops if one.name() in gradients and not self._skipped(one)]:
            for var in [one for one in op.inputs if one.name() in made]:
                graph.update_input_link(var, made[var.name()], op)
        graph.resolve_hazard()
        return graph

    def _skipped(self, op: IrOpNode) -> bool:
        return skips(op, self._skip_patterns)

    def _rounded(self, graph: IrGraph, var: IrVarNode) -> IrVarNode:
        """A variable after it was quantised and back."""
        out = like(graph, var, ".quant_dequant")
        name = f"{var.name()}.quant_dequant.scale"
        before = self._values.kept(graph, name, np.array([0.001], "float32"), var.dtype())
        inputs: dict[str, Any] = {"X": var, "InScale": before}
        outputs: dict[str, Any] = {"Out": out}
        outputs["OutScale"] = graph.create_var_node_from_desc(before.var())
        if not graph.is_test():
            for slot in ("State", "Accum"):
                key = f"quant_dequant.{slot.lower()}"
                inputs[f"In{slot}"] = given = self._values.one(graph, key, 1.0, var)
                outputs[f"Out{slot}"] = graph.create_var_node_from_desc(given.var())
        attrs = {"bit_length": self._bits, "moving_rate": self._moving_rate}
        insert(graph, _ROUNDED, attrs | {"is_test": graph.is_test()}, inputs, outputs)
        return out

"""Passes over an `IrGraph` that simulate quantisation in training, and quantise what was trained.

graph = IrGraph(core.Graph(program.desc), for_test=True)
QuantizationTransformPass(scope, place).apply(graph)
...
QuantizationFreezePass(scope, place).apply(graph)
program = graph.to_program()
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np

from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid.contrib.slim.quantization.activations import AddQuantDequantPass
from refluid.fluid.contrib.slim.quantization.freezing import QuantizationFreezePass
from refluid.fluid.contrib.slim.quantization.inserting import (
    DEQUANTIZE,
    DEQUANTIZE_BY_CHANNEL,
    SLOTS,
    WEIGHTS,
    ScopeValues,
    insert,
    like,
    one_of,
    quantizable,
    quantized_inputs,
    skips,
)
from refluid.fluid.contrib.slim.quantization.out_scales import (
    WATCHED,
    OutScaleForInferencePass,
    OutScaleForTrainingPass,
)
from refluid.fluid.contrib.slim.quantization.own_functions import (
    GradientOf,
    OwnFunctions,
    ends_of,
)
from refluid.fluid.contrib.slim.quantization.whole_numbers import (
    ConvertToInt8Pass,
    TransformForMobilePass,
)
from refluid.fluid.graphs.ir_graph import IrGraph, IrOpNode, IrVarNode
from refluid.ops.nn.quantization import greatest

__all__ = [
    "AddQuantDequantPass",
    "ConvertToInt8Pass",
    "OutScaleForInferencePass",
    "OutScaleForTrainingPass",
    "QuantizationFreezePass",
    "QuantizationTransformPass",
    "TransformForMobilePass",
]

_out_scale_op_list = WATCHED  # the name by which scripts import it of this module

_ACTIVATIONS = ("abs_max", "range_abs_max", "moving_average_abs_max")


class QuantizationTransformPass:
    """conv2d(x, w) -> conv2d(dequantize(quantize(x)), dequantize(quantize(w))), and its gradient.

    Gradients reach x and w as if nothing stood between. Operators whose inputs hold no parameter
    are left alone, and those made in a `name_scope` that contains one of `skip_pattern`.
    weight_preprocess_func, act_preprocess_func: what is quantised in the place of w and x, a
    function of a variable; weight_quantize_func, act_quantize_func: what stands in the place of
    dequantize(quantize(x)). Their parameters are started by `executor`, where the scope hasn't
    got them, and trained by the optimizer that `optimizer_func` returns.
    Raises ValueError for other kinds of quantisation, and where one of these is missing.
    """

    _supported_quantizable_op_type: ClassVar[list[str]] = list(SLOTS)

    def __init__(
        self,
        scope: Scope | None = None,
        place: Place | None = None,
        weight_bits: int = 8,
        activation_bits: int = 8,
        activation_quantize_type: str = "abs_max",
        weight_quantize_type: str = "abs_max",
        window_size: int = 10000,
        moving_rate: float = 0.9,
        skip_pattern: Sequence[str] = ["skip_quant"],
        quantizable_op_type: Sequence[str] = ["conv2d", "depthwise_conv2d", "mul"],
        weight_quantize_func: Any = None,
        act_quantize_func: Any = None,
        weight_preprocess_func: Any = None,
        act_preprocess_func: Any = None,
        optimizer_func: Any = None,
        executor: Any = None,
    ) -> None:
        one_of("activation_quantize_type", activation_quantize_type, _ACTIVATIONS)
        one_of("weight_quantize_type", weight_quantize_type, WEIGHTS)
        self._values = ScopeValues(scope, place)
        self._bits = {True: weight_bits, False: activation_bits}
        self._kinds = {True: weight_quantize_type, False: activation_quantize_type}
        self._window_size, self._moving_rate = window_size, moving_rate
        patterns = [skip_pattern] if isinstance(skip_pattern, str) else skip_pattern
        self._skip_patterns = list(patterns or ())
        self._types = quantizable(quantizable_op_type)
        self._own = OwnFunctions(
            {True: weight_preprocess_func, False: act_preprocess_func},
            {True: weight_quantize_func, False: act_quantize_func},
            optimizer_func,
            executor,
            scope,
        )

    def apply(self, graph: IrGraph) -> IrGraph:
        """Puts the operators into the graph, and returns it."""
        kept = {node.name() for node in graph.all_persistable_nodes()}
        ops = graph.topology_sort()
        readers = self._readers(ops, kept)
        made: dict[str, IrVarNode] = {}
        for name, pairs in readers.items():
            op, var = pairs[0]
            ends = ends_of(name, [one for one, _ in pairs], ops)
            made[name] = self._simulated(graph, var, op, name in kept, ends)
        for name, pairs in readers.items():
            for op, var in pairs:
                graph.update_input_link(var, made[name], op)
        for op in ops:
            if op.name().removesuffix("_grad") in self._types and op.name().endswith("_grad"):
                for var in [one for one in op.inputs if one.name() in made]:
                    graph.update_input_link(var, made[var.name()], op)
        graph.resolve_hazard()
        return graph

    def _skips(self, op: IrOpNode) -> bool:
        return skips(op, self._skip_patterns)

    def _readers(
        self, ops: Sequence[IrOpNode], kept: Collection[str]
    ) -> dict[str, list[tuple[IrOpNode, IrVarNode]]]:
        """By name of what is quantised who reads it, and which version."""
        found: dict[str, list[tuple[IrOpNode, IrVarNode]]] = {}
        for op in (one for one in ops if one.name() in self._types and not self._skips(one)):
            read = quantized_inputs(op)
            if any(var.name() in kept for var in read):
                for var in read:
                    found.setdefault(var.name(), []).append((op, var))
        return found

    def _simulated(
        self,
        graph: IrGraph,
        var: IrVarNode,
        op: IrOpNode,
        is_weight: bool,
        ends: Sequence[GradientOf],
    ) -> IrVarNode:
        """A variable after it was quantised and back. ends: gradients of it that readers give."""
        given = self._own.applied(graph, var, is_weight, ends)
        if self._own.quantize(is_weight):
            return given
        bits, kind = self._bits[is_weight], self._kinds[is_weight]
        if kind == "channel_wise_abs_max" and "conv2d" not in op.name():
            kind = "abs_max"
        whole, back = like(graph, var, ".quantized"), like(graph, var, ".quantized.dequantized")
        scale = self._quantize(graph, f"{var.name()}.scale", given, whole, kind, bits)
        if kind == "channel_wise_abs_max":
            insert(
                graph,
                DEQUANTIZE_BY_CHANNEL,
                {"quant_bits": [bits]},
                {"X": whole, "Scales": [scale]},
                {"Out": back},
            )
        else:
            attrs = {"max_range": float(greatest(bits))}
            insert(graph, DEQUANTIZE, attrs, {"X": whole, "Scale": scale}, {"Out": back})
        return back

    def _quantize(
        self, graph: IrGraph, name: str, var: IrVarNode, whole: IrVarNode, kind: str, bits: int
    ) -> IrVarNode:
        """Adds the operator that makes whole numbers; the scale that it gives."""
        attrs: dict[str, Any] = {"bit_length": bits}
        if kind in WEIGHTS:
            sizes = [var.shape()[0]] if kind == "channel_wise_abs_max" else [1]
            scale = graph.create_var_node(name, var.type(), sizes, var.dtype())
            type = f"fake_{'channel_wise_' if len(kind) > 7 else ''}quantize_abs_max"
            insert(graph, type, attrs, {"X": var}, {"Out": whole, "OutScale": scale})
            return scale
        before = self._values.kept(graph, name, np.array([0.001], "float32"), var.dtype())
        scale = graph.create_var_node_from_desc(before.var())
        inputs, outputs = {"X": var, "InScale": before}, {"Out": whole, "OutScale": scale}
        if kind == "range_abs_max":
            attrs["window_size"] = self._window_size
        else:
            attrs["moving_rate"] = self._moving_rate
        if kind == "moving_average_abs_max" and not graph.is_test():
            for slot in ("State", "Accum"):
                given = self._values.one(graph, slot.lower(), 1.0, var)
                inputs[f"In{slot}"] = given
                outputs[f"Out{slot}"] = graph.create_var_node_from_desc(given.var())
        insert(
            graph, f"fake_quantize_{kind}", attrs | {"is_test": graph.is_test()}, inputs, outputs
        )
        return scale

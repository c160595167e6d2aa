"""Passes over an `IrGraph` that simulate quantisation in training, and quantise what was trained.

graph = IrGraph(core.Graph(program.desc), for_test=True)
QuantizationTransformPass(scope, place).apply(graph)
...
QuantizationFreezePass(scope, place).apply(graph)
program = graph.to_program()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid.contrib.slim.quantization.activations import AddQuantDequantPass
from refluid.fluid.contrib.slim.quantization.inserting import (
    SLOTS,
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
from refluid.fluid.contrib.slim.quantization.whole_numbers import (
    ConvertToInt8Pass,
    TransformForMobilePass,
)
from refluid.fluid.graphs.ir_graph import IrGraph, IrOpNode, IrVarNode
from refluid.ops.nn.quantization import greatest, quantized

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

_WEIGHTS = ("abs_max", "channel_wise_abs_max")
_ACTIVATIONS = ("abs_max", "range_abs_max", "moving_average_abs_max")
_DEQUANTIZE = "fake_dequantize_max_abs"
_BY_CHANNEL = "fake_channel_wise_dequantize_max_abs"


class QuantizationTransformPass:
    """conv2d(x, w) -> conv2d(dequantize(quantize(x)), dequantize(quantize(w))), and its gradient.

    Gradients reach x and w as if nothing stood between. Operators whose inputs hold no parameter
    are left alone, and those made in a `name_scope` that contains one of `skip_pattern`.
    optimizer_func and executor belong to functions of one's own and have no effect without these.
    Raises ValueError for other kinds of quantisation, NotImplementedError for such functions.
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
        _refuse_functions(
            weight_quantize_func=weight_quantize_func,
            act_quantize_func=act_quantize_func,
            weight_preprocess_func=weight_preprocess_func,
            act_preprocess_func=act_preprocess_func,
        )
        one_of("activation_quantize_type", activation_quantize_type, _ACTIVATIONS)
        one_of("weight_quantize_type", weight_quantize_type, _WEIGHTS)
        self._values = ScopeValues(scope, place)
        self._bits = {True: weight_bits, False: activation_bits}
        self._kinds = {True: weight_quantize_type, False: activation_quantize_type}
        self._window_size, self._moving_rate = window_size, moving_rate
        patterns = [skip_pattern] if isinstance(skip_pattern, str) else skip_pattern
        self._skip_patterns = list(patterns or ())
        self._types = quantizable(quantizable_op_type)

    def apply(self, graph: IrGraph) -> IrGraph:
        """Puts the operators into the graph, and returns it."""
        kept = {node.name() for node in graph.all_persistable_nodes()}
        made: dict[str, IrVarNode] = {}
        ops = graph.topology_sort()
        for op in (one for one in ops if one.name() in self._types and not self._skips(one)):
            read = quantized_inputs(op)
            if not any(var.name() in kept for var in read):
                continue
            for var in read:
                if var.name() not in made:
                    made[var.name()] = self._simulated(graph, var, op, var.name() in kept)
                graph.update_input_link(var, made[var.name()], op)
        for op in ops:
            if op.name().removesuffix("_grad") in self._types and op.name().endswith("_grad"):
                for var in [one for one in op.inputs if one.name() in made]:
                    graph.update_input_link(var, made[var.name()], op)
        graph.resolve_hazard()
        return graph

    def _skips(self, op: IrOpNode) -> bool:
        return skips(op, self._skip_patterns)

    def _simulated(
        self, graph: IrGraph, var: IrVarNode, op: IrOpNode, is_weight: bool
    ) -> IrVarNode:
        """A variable after it was quantised and back."""
        bits, kind = self._bits[is_weight], self._kinds[is_weight]
        if kind == "channel_wise_abs_max" and "conv2d" not in op.name():
            kind = "abs_max"
        whole, back = like(graph, var, ".quantized"), like(graph, var, ".quantized.dequantized")
        scale = self._quantize(graph, var, whole, kind, bits)
        if kind == "channel_wise_abs_max":
            insert(
                graph,
                _BY_CHANNEL,
                {"quant_bits": [bits]},
                {"X": whole, "Scales": [scale]},
                {"Out": back},
            )
        else:
            attrs = {"max_range": float(greatest(bits))}
            insert(graph, _DEQUANTIZE, attrs, {"X": whole, "Scale": scale}, {"Out": back})
        return back

    def _quantize(
        self, graph: IrGraph, var: IrVarNode, whole: IrVarNode, kind: str, bits: int
    ) -> IrVarNode:
        """Adds the operator that makes whole numbers; the scale that it gives."""
        name = f"{var.name()}.scale"
        attrs: dict[str, Any] = {"bit_length": bits}
        if kind in _WEIGHTS:
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


class QuantizationFreezePass:
    """conv2d(back(whole(x)), back(whole(w))) -> back(conv2d(whole(x), w)), w whole in the scope.

    Of a graph that `QuantizationTransformPass` changed, for inference. The weights in the scope
    become whole numbers, kept as floats.
    """

    _supported_quantizable_op_type: ClassVar[list[str]] = list(SLOTS)

    def __init__(
        self,
        scope: Scope,
        place: Place,
        weight_bits: int = 8,
        activation_bits: int = 8,
        weight_quantize_type: str = "abs_max",
        quantizable_op_type: Sequence[str] | None = None,
    ) -> None:
        if scope is None or place is None:
            raise ValueError("The scope and place cannot be set None.")
        one_of("weight_quantize_type", weight_quantize_type, _WEIGHTS)
        self._values = ScopeValues(scope, place)
        self._weight_bits, self._activation_bits = weight_bits, activation_bits
        self._types = quantizable(quantizable_op_type or list(SLOTS))

    def apply(self, graph: IrGraph) -> IrGraph:
        """Changes the graph and the weights in the scope, and returns the graph."""
        scales: dict[str, Any] = {}
        for op in [one for one in graph.topology_sort() if one.name() in self._types]:
            self._freeze(graph, op, scales)
        unused = [node for node in graph.all_var_nodes() if not node.inputs + node.outputs]
        graph.safe_remove_nodes(unused)
        return graph

    def _freeze(self, graph: IrGraph, op: IrOpNode, scales: dict[str, Any]) -> None:
        """scales: of the weights that are whole numbers already, by their names."""
        weight_scale, activation_scale = None, None
        for back in quantized_inputs(op):
            if not back.inputs or back.inputs[0].name() not in (_DEQUANTIZE, _BY_CHANNEL):
                continue
            (whole,) = (one for one in back.inputs[0].inputs if one.name().endswith(".quantized"))
            (maker,) = whole.inputs
            source = next(one for one in maker.inputs if one.name() == maker.input("X")[0])
            if source.persistable():
                weight_scale = self._made_whole(source, maker, scales)
                graph.update_input_link(back, source, op)
            else:
                names = maker.output("OutScale")
                activation_scale = next(one for one in maker.outputs if one.name() in names)
                graph.update_input_link(back, whole, op)
            self._forget(graph, back, whole, maker if source.persistable() else None)
        if weight_scale is not None and activation_scale is not None:
            self._dequantize(graph, op, weight_scale, activation_scale)

    def _made_whole(self, weight: IrVarNode, maker: IrOpNode, scales: dict[str, Any]) -> Any:
        name = weight.name()
        if name not in scales:
            value = torch.from_numpy(self._values.array(name))
            by_channel = "channel_wise" in maker.name()
            scale = value.abs().flatten(1).amax(1) if by_channel else value.abs().amax().reshape(1)
            shape = [-1] + [1] * (value.dim() - 1)
            whole = quantized(value, scale.reshape(shape), self._weight_bits)
            self._values.put(name, whole.numpy())
            scales[name] = scale.numpy()
        return scales[name]

    def _forget(
        self, graph: IrGraph, back: IrVarNode, whole: IrVarNode, maker: IrOpNode | None
    ) -> None:
        """Removes what nobody reads any more: the way back, and for a weight the way there."""
        if back.outputs:
            return
        gone = [back.inputs[0], back]
        if maker is not None:
            gone += [maker, *maker.outputs]
        graph.safe_remove_nodes(gone)

    def _dequantize(
        self, graph: IrGraph, op: IrOpNode, weight_scale: Any, activation_scale: IrVarNode
    ) -> None:
        """Has what reads the result read it times the scales."""
        (out,) = op.outputs
        readers = out.outputs
        back = like(graph, out, ".dequantized")
        bits = [self._weight_bits, self._activation_bits]
        if weight_scale.size > 1:
            kept = self._values.kept(
                graph, f"{out.name()}.channel_scale", weight_scale, out.dtype()
            )
            inputs = {"X": out, "Scales": [kept, activation_scale]}
            insert(graph, _BY_CHANNEL, {"quant_bits": bits}, inputs, {"Out": back})
        else:
            ranges = float(greatest(bits[0]) * greatest(bits[1])) / float(weight_scale[0])
            inputs = {"X": out, "Scale": activation_scale}
            insert(graph, _DEQUANTIZE, {"max_range": ranges}, inputs, {"Out": back})
        for reader in readers:
            graph.update_input_link(out, back, reader)


def _refuse_functions(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(
                f"QuantizationTransformPass: {name} is not there; use activation_quantize_type and "
                "weight_quantize_type"
            )

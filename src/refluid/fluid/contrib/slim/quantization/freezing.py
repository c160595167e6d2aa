"""conv2d(back(whole(x)), back(whole(w))) -> back(conv2d(whole(x), w)), w whole in the scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from refluid.core.places import Place
from refluid.core.scope import Scope
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
)
from refluid.fluid.graphs.ir_graph import IrGraph, IrOpNode, IrVarNode
from refluid.ops.nn.quantization import greatest, quantized


class QuantizationFreezePass:
    """Has products taken of whole numbers, and their results brought back.

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
        one_of("weight_quantize_type", weight_quantize_type, WEIGHTS)
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
            if not back.inputs or back.inputs[0].name() not in (DEQUANTIZE, DEQUANTIZE_BY_CHANNEL):
                continue
            (whole,) = (one for one in back.inputs[0].inputs if one.name().endswith(".quantized"))
            (maker,) = whole.inputs
            source = next(one for one in maker.inputs if one.name() == maker.input("X")[0])
            _refuse_processed_weight(graph, whole, source)
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
            insert(graph, DEQUANTIZE_BY_CHANNEL, {"quant_bits": bits}, inputs, {"Out": back})
        else:
            ranges = float(greatest(bits[0]) * greatest(bits[1])) / float(weight_scale[0])
            inputs = {"X": out, "Scale": activation_scale}
            insert(graph, DEQUANTIZE, {"max_range": ranges}, inputs, {"Out": back})
        for reader in readers:
            graph.update_input_link(out, back, reader)


def _refuse_processed_weight(graph: IrGraph, whole: IrVarNode, source: IrVarNode) -> None:
    name = whole.name().removesuffix(".quantized")
    if name != source.name() and name in {one.name() for one in graph.all_persistable_nodes()}:
        raise ValueError(
            f"QuantizationFreezePass: {name} is a weight that a function of one's own changes "
            "before it is quantised, so no whole numbers stand for it; transform the inference "
            "program without weight_preprocess_func"
        )

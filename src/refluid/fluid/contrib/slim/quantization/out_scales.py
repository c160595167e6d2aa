"""conv2d(x) -> y becomes conv2d(x) -> y, moving_average_abs_max_scale(y): how large results are.

Engines that compute with whole numbers take the scale from the operator's attribute
`out_threshold`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from refluid.core.dtypes import VarType
from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid.contrib.slim.quantization.inserting import SLOTS, ScopeValues, insert, like
from refluid.fluid.graphs.ir_graph import IrGraph, IrOpNode, IrVarNode
from refluid.ir.attributes import ROLE, OpRole

# Operators whose results such engines keep as whole numbers, and the slots that hold results.
# A list, which scripts import as `_out_scale_op_list`: what they add is watched too.
WATCHED = [
    *(*SLOTS, "conv2d_transpose", "batch_norm", "pool2d", "concat", "split", "pad", "dropout"),
    *("elementwise_add", "elementwise_mul", "relu", "relu6", "leaky_relu", "prelu"),
    *("sigmoid", "tanh", "swish", "softmax"),
]
_RESULTS = ("Out", "Output", "Y")
_FLOATS = (VarType.FP32, VarType.FP64)
_THRESHOLD = "out_threshold"


class OutScaleForTrainingPass:
    """Has the greatest magnitudes of what operators give followed, by a moving average.

    The scale of a variable is kept as `NAME@scale`, float32 [1]. scope, place: where it and what it
    is computed from have their first values, 1. A graph for tests only declares it.
    """

    def __init__(
        self, scope: Scope | None = None, place: Place | None = None, moving_rate: float = 0.9
    ) -> None:
        self._values = ScopeValues(scope, place)
        self._moving_rate = moving_rate

    def apply(self, graph: IrGraph) -> IrGraph:
        """Puts the operators into the graph, and returns it. TypeError for anything else."""
        _require_graph(graph)
        results = [var for op in _watched(graph) for var in _results(op)]
        for var in results:
            scale = self._kept(graph, _scale_of(var.name()), var)
            if not graph.is_test():
                self._follow(graph, var, scale)
        graph.resolve_hazard()
        return graph

    def _follow(self, graph: IrGraph, var: IrVarNode, scale: IrVarNode) -> None:
        inputs, outputs = {"X": var}, {"Out": like(graph, var, ".watched"), "OutScale": scale}
        for slot in ("State", "Accum"):
            given = self._kept(graph, f"{_scale_of(var.name())}.{slot.lower()}", var)
            inputs[f"In{slot}"] = given
            outputs[f"Out{slot}"] = graph.create_var_node_from_desc(given.var())
        attrs = {"moving_rate": self._moving_rate, "is_test": False}
        insert(graph, "moving_average_abs_max_scale", attrs, inputs, outputs)

    def _kept(self, graph: IrGraph, name: str, var: IrVarNode) -> IrVarNode:
        return self._values.kept(graph, name, np.ones(1, "float32"), var.dtype())


class OutScaleForInferencePass:
    """Gives operators the scales of their results that training found, as `out_threshold`.

    Of several results, the greatest. scope: where the scales are; ValueError where it lacks one.
    """

    def __init__(self, scope: Scope | None = None) -> None:
        self._values = ScopeValues(scope, None)

    def apply(self, graph: IrGraph) -> IrGraph:
        """Sets the attributes, and returns the graph. TypeError for anything else."""
        _require_graph(graph)
        for op in _watched(graph):
            names = [_scale_of(var.name()) for var in _results(op)]
            if names:
                op.set_attr(_THRESHOLD, max(self._scale(name) for name in names))
        graph.resolve_hazard()
        return graph

    def _scale(self, name: str) -> float:
        value = self._values.array(name)
        if not value.size:
            raise ValueError(f"the scope has no {name}: apply OutScaleForTrainingPass, and train")
        return float(value.reshape(-1)[0])


def _require_graph(graph: object) -> None:
    if not isinstance(graph, IrGraph):
        raise TypeError(f"graph must be an IrGraph, not {type(graph).__name__}")


def _watched(graph: IrGraph) -> Iterator[IrOpNode]:
    """The forward operators of the types that count."""
    later = OpRole.BACKWARD | OpRole.OPTIMIZE
    for op in graph.topology_sort():
        described = op.op()
        if op.name() in WATCHED and described is not None and not described.attr(ROLE) & later:
            yield op


def _results(op: IrOpNode) -> list[IrVarNode]:
    """What it gives in floating point and nobody keeps."""
    names = {name for slot in _RESULTS for name in op.output(slot)}
    made = [var for var in op.outputs if var.name() in names and not var.persistable()]
    return [var for var in made if var.type() == VarType.LOD_TENSOR and var.dtype() in _FLOATS]


def _scale_of(name: str) -> str:
    return f"{name}@scale"

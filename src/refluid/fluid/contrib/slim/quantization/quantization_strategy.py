"""`QuantizationStrategy`: quantisation is simulated in training, then models are saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refluid.fluid import core, io
from refluid.fluid.contrib.slim.core.strategy import Strategy
from refluid.fluid.contrib.slim.graph.graph_wrapper import GraphWrapper
from refluid.fluid.contrib.slim.quantization.quantization_pass import (
    ConvertToInt8Pass,
    QuantizationFreezePass,
    QuantizationTransformPass,
    TransformForMobilePass,
)
from refluid.fluid.executor import Executor
from refluid.fluid.graphs.ir_graph import IrGraph

__all__ = ["QuantizationStrategy"]


class QuantizationStrategy(Strategy):
    """At `start_epoch` puts simulated quantisation into the graphs; after `end_epoch` saves models.

    The paths are folders, each None for none: of a model whose weights are rounded floats, of one
    of 8-bit weights, and of that for mobile. weight_bits, activation_bits, the types: as of
    `QuantizationTransformPass`. save_in_nodes, save_out_nodes: names of what the saved models are
    fed and fetched; by default those of evaluation.
    """

    def __init__(
        self,
        start_epoch: int = 0,
        end_epoch: int = 0,
        float_model_save_path: str | None = None,
        mobile_model_save_path: str | None = None,
        int8_model_save_path: str | None = None,
        activation_bits: int = 8,
        weight_bits: int = 8,
        activation_quantize_type: str = "abs_max",
        weight_quantize_type: str = "abs_max",
        save_in_nodes: Sequence[str] | None = None,
        save_out_nodes: Sequence[str] | None = None,
    ) -> None:
        super().__init__(start_epoch, end_epoch)
        self.float_model_save_path = float_model_save_path
        self.mobile_model_save_path = mobile_model_save_path
        self.int8_model_save_path = int8_model_save_path
        self.activation_bits, self.weight_bits = activation_bits, weight_bits
        self.activation_quantize_type = activation_quantize_type
        self.weight_quantize_type = weight_quantize_type
        self.save_in_nodes, self.save_out_nodes = save_in_nodes, save_out_nodes

    def restore_from_checkpoint(self, context: Any) -> None:
        if context.epoch_id > self.start_epoch:
            self._begin(context)

    def on_epoch_begin(self, context: Any) -> None:
        if context.epoch_id == self.start_epoch:
            self._begin(context)

    def on_epoch_end(self, context: Any) -> None:
        if context.epoch_id == self.end_epoch:
            self._save(context)

    def _begin(self, context: Any) -> None:
        for graph, tests in ((context.optimize_graph, False), (context.eval_graph, True)):
            ir = IrGraph(core.Graph(graph.program.desc), for_test=tests)
            QuantizationTransformPass(
                scope=context.scope,
                place=context.place,
                weight_bits=self.weight_bits,
                activation_bits=self.activation_bits,
                activation_quantize_type=self.activation_quantize_type,
                weight_quantize_type=self.weight_quantize_type,
            ).apply(ir)
            graph.program = ir.to_program()
        context.changed()

    def _save(self, context: Any) -> None:
        graph: GraphWrapper = context.eval_graph
        fed = list(self.save_in_nodes or graph.in_nodes.values())
        fetched = list(self.save_out_nodes or graph.out_nodes.values())
        ir = IrGraph(core.Graph(graph.program.clone(for_test=True).desc), for_test=True)
        freeze = QuantizationFreezePass(
            scope=context.scope,
            place=context.place,
            weight_bits=self.weight_bits,
            activation_bits=self.activation_bits,
            weight_quantize_type=self.weight_quantize_type,
        )
        before = context.snapshot()  # freezing rounds the weights in the scope
        freeze.apply(ir)
        self._write(self.float_model_save_path, ir, fed, fetched, context)
        if self.int8_model_save_path or self.mobile_model_save_path:
            ConvertToInt8Pass(scope=context.scope, place=context.place).apply(ir)
            self._write(self.int8_model_save_path, ir, fed, fetched, context)
        if self.mobile_model_save_path:
            TransformForMobilePass().apply(ir)
            self._write(self.mobile_model_save_path, ir, fed, fetched, context)
        context.restore(before)

    def _write(
        self, path: str | None, ir: IrGraph, fed: list[str], fetched: list[str], context: Any
    ) -> None:
        if path is None:
            return
        Path(path).mkdir(parents=True, exist_ok=True)
        program = ir.to_program()
        targets = [program.global_block().var(name) for name in fetched]
        io.save_inference_model(
            path,
            fed,
            targets,
            Executor(context.place),
            program,
            model_filename="model",
            params_filename="weights",
        )

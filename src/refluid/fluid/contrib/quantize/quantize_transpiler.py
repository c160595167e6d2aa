"""A program quantised in training, in its place: the passes of `contrib.slim`, from an older time.

transpiler = QuantizeTranspiler()
transpiler.training_transpile(main, startup)    # after minimize
...                                             # train
transpiler.freeze_program(test, place)
transpiler.convert_to_int8(test, place)
"""

from __future__ import annotations

from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid import core
from refluid.fluid.contrib.slim.quantization.quantization_pass import (
    ConvertToInt8Pass,
    QuantizationFreezePass,
    QuantizationTransformPass,
)
from refluid.fluid.executor import global_scope
from refluid.fluid.graphs.ir_graph import IrGraph
from refluid.fluid.initializer import ConstantInitializer
from refluid.ir.defaults import default_main_program, default_startup_program
from refluid.ir.editor import Editor
from refluid.ir.program import Program, copy_op

__all__ = ["QuantizeTranspiler"]

_SCALE, _FIRST_SCALE = ".scale", 0.001


class QuantizeTranspiler:
    """Has conv2d, depthwise_conv2d and mul compute with rounded inputs and weights, and gradients.

    activation_quantize_type: `abs_max`, `range_abs_max` or `moving_average_abs_max` (by
    moving_rate); weight_quantize_type: `abs_max` or `channel_wise_abs_max`. Raises ValueError for
    others.
    """

    def __init__(
        self,
        weight_bits: int = 8,
        activation_bits: int = 8,
        activation_quantize_type: str = "abs_max",
        weight_quantize_type: str = "abs_max",
        window_size: int = 10000,
        moving_rate: float = 0.9,
    ) -> None:
        self._bits = weight_bits, activation_bits
        self._weight_type = weight_quantize_type
        self._transform = QuantizationTransformPass(
            None,
            None,
            weight_bits,
            activation_bits,
            activation_quantize_type,
            weight_quantize_type,
            window_size,
            moving_rate,
        )

    def training_transpile(
        self, program: Program | None = None, startup_program: Program | None = None
    ) -> None:
        """Changes a program for training; what it keeps then has first values by startup_program.

        Both are the default programs unless given.
        """
        main = default_main_program() if program is None else program
        startup = default_startup_program() if startup_program is None else startup_program
        before = set(main.global_block().vars)
        graph = self._transform.apply(IrGraph(core.Graph(main.desc)))
        _become(main, graph.to_program())
        block = startup.global_block()
        for name, var in main.global_block().vars.items():
            if var.persistable and name not in before:
                first = _FIRST_SCALE if name.endswith(_SCALE) else 1.0
                ConstantInitializer(first)(var.copy_to(block), block)

    def freeze_program(self, program: Program, place: Place, scope: Scope | None = None) -> None:
        """Changes a program for tests: products are of whole numbers, the weights in the scope are.

        scope: the global one unless given.
        """
        values = global_scope() if scope is None else scope
        freeze = QuantizationFreezePass(values, place, *self._bits, self._weight_type)
        graph = freeze.apply(IrGraph(core.Graph(program.desc), for_test=True))
        _become(program, graph.to_program())

    def convert_to_int8(self, program: Program, place: Place, scope: Scope | None = None) -> None:
        """Has a frozen program keep its weights as int8, in `NAME.int8` of the scope."""
        values = global_scope() if scope is None else scope
        graph = IrGraph(core.Graph(program.desc), for_test=True)
        _become(program, ConvertToInt8Pass(values, place).apply(graph).to_program())


def _become(program: Program, other: Program) -> None:
    """Gives a program the first block of another one that was made of it."""
    block, made = program.global_block(), other.global_block()
    for name, var in made.vars.items():
        if name not in block.vars:
            var.copy_to(block)
    Editor(block).assign(copy_op(op, block) for op in made.ops)
    Editor(block).forget_variables(set(block.vars) - set(made.vars))

"""ModelAverage: parameters averaged over a window of the last steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from refluid.build import apply
from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.fluid import layers
from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.optimizer.base import Optimizer
from refluid.fluid.optimizer.copying import averaged_parameters, copy_back, twin
from refluid.fluid.optimizer.stepping import only_in_programs
from refluid.fluid.regularizer import WeightDecayRegularizer
from refluid.ir.ambient import name_scope
from refluid.ir.defaults import default_main_program, program_guard
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable

_SUMS = ("sum_1", "sum_2", "sum_3")
_COUNTS = ("num_accumulates", "old_num_accumulates", "num_updates")


class ModelAverage(Optimizer):
    """Keeps sums of the parameters of the last steps, to evaluate with their average.

    To be made after `minimize`. The window is `average_window_rate` of all steps so far, at
    least `min_average_window` and at most `max_average_window`. Parameters whose ParamAttr says
    `do_model_average=False` are left out.

        average = fluid.optimizer.ModelAverage(0.15, min_average_window=10000)
        ...
        with average.apply(exe):
            ...  # runs here use the averages
    """

    def __init__(
        self,
        average_window_rate: float,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        regularization: WeightDecayRegularizer | None = None,
        name: str | None = None,
    ) -> None:
        only_in_programs("ModelAverage")
        super().__init__(0.0, regularization=regularization, name=name)
        self.average_window = average_window_rate
        self.min_average_window = min_average_window
        self.max_average_window = max_average_window
        self.helper = LayerHelper(type(self).__name__)
        self.params_grads = [(param, _spare(param)) for param in averaged_parameters()]
        for param, spare in self.params_grads:
            with param.block.program.optimized_guard([param, spare]), name_scope("move_average"):
                self._append_average_accumulate_op(param)
        self.apply_program, self.restore_program = Program(), Program()
        with program_guard(self.apply_program):
            for param, spare in self.params_grads:
                self._add_average_apply_op(self.apply_program, param, spare)
        copy_back(self.restore_program, self.params_grads)

    @contextmanager
    def apply(self, executor: Any, need_restore: bool = True) -> Iterator[None]:
        """The parameters hold their averages, until the end of the `with` if `need_restore`."""
        executor.run(self.apply_program)
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: Any) -> None:
        """Gives the parameters back what they held before `apply`."""
        executor.run(self.restore_program)

    def _append_average_accumulate_op(self, param: Parameter) -> None:
        kept = {f"in_{name}": self._add_accumulator(name, param) for name in _SUMS}
        for name in _COUNTS:
            kept[f"in_{name}"] = self._add_accumulator(name, param, dtype=VarType.INT64, shape=[1])
        attrs = {
            "average_window": self.average_window,
            "min_average_window": self.min_average_window,
            "max_average_window": self.max_average_window,
        }
        block = default_main_program().global_block()
        apply("average_accumulates", {"param": param, **kept}, attrs=attrs, block=block)

    def _add_average_apply_op(self, program: Program, param: Parameter, spare: Variable) -> None:
        block = program.global_block()
        target = twin(block, param)
        sums = [twin(block, self._get_accumulator(name, param)) for name in _SUMS]
        counts = [twin(block, self._get_accumulator(name, param)) for name in _COUNTS[:2]]
        layers.assign(target, output=twin(block, spare))
        count, total = layers.sums(counts), layers.sums(sums)
        dtype = VarType.FP32 if self._dtype is None else self._dtype
        count, total = layers.cast(count, dtype), layers.cast(total, dtype)
        inputs = {"X": total, "Y": count}
        apply("elementwise_div", inputs, {"Out": target}, {"axis": -1}, block=block)


def _spare(param: Parameter) -> Variable:
    """Where the parameter's own value is kept while it holds the average."""
    return param.block.create_var(
        name=names.generate(f"{param.name}.tmp"),
        dtype=param.dtype,
        persistable=False,
        stop_gradient=True,
    )

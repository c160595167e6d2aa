"""metrics.DetectionMAP: mean average precision over many batches, computed in the program."""

from __future__ import annotations

from typing import Any

from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.fluid.functions.detection.mean_precision import detection_map
from refluid.fluid.functions.tensor.assignment import cast
from refluid.fluid.functions.tensor.creation import fill_constant
from refluid.fluid.functions.tensor.joining import concat
from refluid.fluid.initializer import Constant
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.defaults import program_guard
from refluid.ir.program import Program
from refluid.ir.variable import Variable

# The tables are sequences, one per class.
_STATES: dict[str, dict[str, Any]] = {
    "accum_pos_count": {"dtype": VarType.INT32},
    "accum_true_pos": {"dtype": VarType.FP32, "lod_level": 1},
    "accum_false_pos": {"dtype": VarType.FP32, "lod_level": 1},
}


class DetectionMAP:
    """Mean average precision of detections, of each batch and of all since the last reset.

    input: detections (rows, 6) of label, score, box. gt_label, gt_box and gt_difficult: (rows, 1),
    (rows, 4) and (rows, 1); all are sequences per image, boxes in parts of the image. class_num:
    with the background, whose number is `background_label`. A detection is true if it overlaps
    its box by more than `overlap_threshold`. Difficult boxes count if `evaluate_difficult`.
    ap_version: 'integral' or '11point'.

    Appends its operators to the default program; the startup program prepares its state.
    """

    def __init__(
        self,
        input: Variable,
        gt_label: Variable,
        gt_box: Variable,
        gt_difficult: Variable | None = None,
        class_num: int | None = None,
        background_label: int = 0,
        overlap_threshold: float = 0.5,
        evaluate_difficult: bool = True,
        ap_version: str = "integral",
    ) -> None:
        if class_num is None:
            raise ValueError("DetectionMAP: class_num, the number of classes, must be given")
        self.helper = LayerHelper("map_eval")
        parts = [cast(gt_label, gt_box.dtype)]
        if gt_difficult is not None:
            parts.append(cast(gt_difficult, gt_box.dtype))
        label = concat([*parts, gt_box], axis=1)
        options: dict[str, Any] = {
            "class_num": class_num,
            "background_label": background_label,
            "overlap_threshold": overlap_threshold,
            "evaluate_difficult": evaluate_difficult,
            "ap_version": ap_version,
        }
        self.cur_map = detection_map(input, label, **options)
        states = [self._state(suffix, **kind) for suffix, kind in _STATES.items()]
        self.has_state = self._state("has_state", dtype=VarType.INT32, shape=[1])
        self.helper.set_variable_initializer(self.has_state, Constant(value=0))
        self.accum_map = detection_map(
            input,
            label,
            has_state=self.has_state,
            input_states=states,
            out_states=states,
            **options,
        )
        fill_constant([1], self.has_state.dtype, 1, out=self.has_state)

    def _state(self, suffix: str, **options: Any) -> Variable:
        """A variable of the program that keeps its value between runs."""
        name = f"{names.generate(self.helper.name)}_{suffix}"
        return self.helper.create_variable(name=name, persistable=True, **options)

    def get_map_var(self) -> tuple[Variable, Variable]:
        """What to fetch, float32 (1): that of the batch, that of all batches."""
        return self.cur_map, self.accum_map

    def reset(self, executor: Any, reset_program: Program | None = None) -> None:
        """Forgets all batches, by running a program on `executor`."""
        program = Program() if reset_program is None else reset_program
        with program_guard(program):
            state = self.has_state.copy_to(program.current_block())
            fill_constant([1], state.dtype, 0, out=state)
        executor.run(program)

"""Metrics that a program adds up itself, batch by batch. `fluid.metrics` is the newer way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from refluid.core import names
from refluid.core.fetched import fetched
from refluid.fluid.functions.detection.map_metric import DetectionMAP as _MapMetric
from refluid.fluid.functions.math.comparison import equal
from refluid.fluid.functions.math.elementwise import elementwise_sub
from refluid.fluid.functions.math.reduction import reduce_sum, sums
from refluid.fluid.functions.metric.chunks import chunk_eval
from refluid.fluid.functions.metric.editing import edit_distance
from refluid.fluid.functions.tensor.assignment import cast
from refluid.fluid.functions.tensor.creation import fill_constant
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.defaults import program_guard
from refluid.ir.program import Program
from refluid.ir.variable import Variable

__all__ = ["ChunkEvaluator", "DetectionMAP", "EditDistance"]

Numbers = npt.NDArray[Any]


class Evaluator:
    """Base class: states are persistable variables to which each run of the program adds.

    metrics: variables of the last batch, for `fetch_list`.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        self.states: list[Variable] = []
        self.metrics: list[Variable] = []
        self.helper = LayerHelper(name, **kwargs)

    def reset(self, executor: Any, reset_program: Program | None = None) -> None:
        """Sets all states to zero, by running a program on `executor`."""
        program = Program() if reset_program is None else reset_program
        with program_guard(main_program=program):
            for state in self.states:
                own = program.current_block().create_var(**state.options())
                fill_constant(shape=own.shape, value=0.0, dtype=own.dtype, out=own)
        executor.run(program)

    def eval(self, executor: Any, eval_program: Program | None = None) -> Any:
        """The metrics of all batches since the last reset."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is evaluated")

    def _create_state(self, suffix: str, dtype: Any, shape: Sequence[int]) -> Variable:
        """A state of the program the evaluator is made in."""
        state = self.helper.create_variable(
            name=f"{names.generate(self.helper.name)}_{suffix}",
            persistable=True,
            dtype=dtype,
            shape=list(shape),
        )
        self.states.append(state)
        return state

    def _add(self, state: Variable, value: Variable) -> None:
        sums(input=[state, value], out=state)

    def _check_block(self) -> None:
        if self.helper.main_program.current_block().idx != 0:
            raise ValueError("You can only invoke Evaluator in root block")

    def _read(self, executor: Any, program: Program | None) -> list[Numbers]:
        program = Program() if program is None else program
        block = program.current_block()
        own = [block.create_var(**state.options()) for state in self.states]
        values: list[Numbers] = executor.run(program, fetch_list=own)
        return values


class ChunkEvaluator(Evaluator):
    """Precision, recall and F1 of the chunks of all batches (see `layers.chunk_eval`)."""

    def __init__(
        self,
        input: Variable,
        label: Variable,
        chunk_scheme: str,
        num_chunk_types: int,
        excluded_chunk_types: Sequence[int] | None = None,
    ) -> None:
        super().__init__("chunk_eval")
        self._check_block()
        self.num_infer_chunks = self._create_state("num_infer_chunks", "int64", [1])
        self.num_label_chunks = self._create_state("num_label_chunks", "int64", [1])
        self.num_correct_chunks = self._create_state("num_correct_chunks", "int64", [1])
        precision, recall, f1, *counts = chunk_eval(
            input=input,
            label=label,
            chunk_scheme=chunk_scheme,
            num_chunk_types=num_chunk_types,
            excluded_chunk_types=excluded_chunk_types,
        )
        for state, count in zip(self.states, counts, strict=True):
            self._add(state, count)
        self.metrics += [precision, recall, f1]

    def eval(
        self, executor: Any, eval_program: Program | None = None
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Precision, recall and F1, float32 of shape (1,)."""
        inferred, labelled, correct = (float(one[0]) for one in self._read(executor, eval_program))
        precision = correct / inferred if inferred else 0.0
        recall = correct / labelled if labelled else 0.0
        f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
        return (
            fetched(np.array([precision], dtype="float32")),
            fetched(np.array([recall], dtype="float32")),
            fetched(np.array([f1], dtype="float32")),
        )


class EditDistance(Evaluator):
    """Mean edit distance of all sequences, and the share of those that are not right."""

    def __init__(
        self,
        input: Variable,
        label: Variable,
        ignored_tokens: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__("edit_distance", **kwargs)
        self._check_block()
        self.total_distance = self._create_state("total_distance", "float32", [1])
        self.seq_num = self._create_state("seq_num", "int64", [1])
        self.instance_error = self._create_state("instance_error", "int64", [1])
        distances, count = edit_distance(input=input, label=label, ignored_tokens=ignored_tokens)
        zero = fill_constant(shape=[1], value=0.0, dtype="float32")
        right = reduce_sum(cast(x=equal(distances, zero), dtype="int64"))
        wrong = elementwise_sub(x=count, y=right)
        total = reduce_sum(distances)
        for state, value in zip(self.states, (total, count, wrong), strict=True):
            self._add(state, value)
        self.metrics += [total, wrong]

    def eval(self, executor: Any, eval_program: Program | None = None) -> tuple[Numbers, Numbers]:
        """Mean distance and share of wrong sequences, float32 of shape (1,)."""
        total, count, wrong = self._read(executor, eval_program)
        return (total / count).astype("float32"), (wrong / count).astype("float32")


class DetectionMAP(Evaluator):
    """Mean average precision of detections (see `metrics.DetectionMAP`)."""

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
        self._metric = _MapMetric(
            input,
            gt_label,
            gt_box,
            gt_difficult,
            class_num,
            background_label,
            overlap_threshold,
            evaluate_difficult,
            ap_version,
        )
        self.helper = self._metric.helper
        self.states = [self._metric.has_state]
        self.metrics = list(self.get_map_var())

    def get_map_var(self) -> tuple[Variable, Variable]:
        """What to fetch, float32 (1): that of the batch, that of all batches."""
        return self._metric.get_map_var()

    def reset(self, executor: Any, reset_program: Program | None = None) -> None:
        """Forgets all batches, by running a program on `executor`."""
        self._metric.reset(executor, reset_program)

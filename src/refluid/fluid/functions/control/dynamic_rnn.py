"""DynamicRNN: a loop over the steps of sequences of different lengths, without padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from refluid.build import How, apply, check_variables, op
from refluid.core import names
from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.functions.control.arrays import array_read, array_write
from refluid.fluid.functions.control.ranks import array_to_lod_tensor, shrink_memory
from refluid.fluid.functions.control.while_loop import While
from refluid.fluid.functions.math.comparison import less_than
from refluid.fluid.functions.tensor.counting import increment
from refluid.fluid.functions.tensor.creation import fill_constant
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.block import Block
from refluid.ir.variable import Variable


class DynamicRNN:
    """A recurrent network over sequences, the longest first, so that a batch shrinks.

        rnn = fluid.layers.DynamicRNN()
        with rnn.block():
            word = rnn.step_input(sentence)               # a LoDTensor
            prev = rnn.memory(shape=[8])
            hidden = fluid.layers.fc([word, prev], 8, act="tanh")
            rnn.update_memory(prev, hidden)
            rnn.output(hidden)
        out = rnn()                                       # in the sequences of `sentence`

    Raises ValueError for methods called outside of `block` or before the first `step_input`.
    """

    BEFORE_RNN, IN_RNN, AFTER_RNN = range(3)

    def __init__(self, name: str | None = None) -> None:
        self.helper = LayerHelper("dynamic_rnn", name=name)
        self.status = self.BEFORE_RNN
        self.lod_rank_table: Variable | None = None
        self.max_seq_len: Variable | None = None
        self.step_idx: Variable | None = None
        self.zero_idx: Variable | None = None
        self.mem_dict: dict[str, Variable] = {}
        self.mem_link: list[tuple[Variable, Variable]] = []
        self.output_array: list[Variable] = []
        self.outputs: list[Variable] = []
        self.cond = self.helper.create_variable_for_type_inference(VarType.BOOL)
        self.cond.describe(shape=(1,), dtype=VarType.BOOL)
        self.while_op = While(self.cond)
        self.input_array: list[Variable] = []

    # -- the block ---------------------------------------------------------------

    @contextmanager
    def block(self) -> Iterator[None]:
        """Layers within the `with` block are those of one time step."""
        if self.status != self.BEFORE_RNN:
            raise ValueError("rnn.block() can only be invoked once")
        step = fill_constant(shape=[1], dtype="int64", value=0, force_cpu=True)
        step.stop_gradient = False
        self.step_idx = step
        self.status = self.IN_RNN
        with self.while_op.block():
            yield
            self._table()
            increment(x=step, value=1.0, in_place=True)
            for value, array in self.mem_link:
                array_write(x=value, i=step, array=array)
            assert self.max_seq_len is not None
            less_than(x=step, y=self.max_seq_len, force_cpu=True, cond=self.cond)
        self.status = self.AFTER_RNN
        self.outputs += [array_to_lod_tensor(one, self._table()) for one in self.output_array]

    def _require_block(self, method: str) -> Variable:
        if self.status != self.IN_RNN or self.step_idx is None:
            raise ValueError(f"{method} can only be invoked inside rnn block.")
        return self.step_idx

    def _table(self) -> Variable:
        if self.lod_rank_table is None:
            raise ValueError("step_input() must be called first: it says how long sequences are")
        return self.lod_rank_table

    def _parent(self) -> Block:
        parent = self.helper.main_program.current_block().parent
        assert parent is not None
        return parent

    # -- what goes in --------------------------------------------------------------

    def step_input(self, x: Variable, level: int = 0) -> Variable:
        """The step's rows of the sequences of `x` on LoD level `level`, the longest first.

        All step inputs have the same LoD there. Rows become sequences where `x` has more levels.
        """
        step = self._require_block("step_input")
        check_variables("DynamicRNN.step_input", {"x": x})
        parent = self._parent()
        if self.lod_rank_table is None:
            self._rank(parent, x, level, step)
        array = parent.create_var(
            name=names.generate("dynamic_rnn_input_array"),
            type=VarType.LOD_TENSOR_ARRAY,
            dtype=x.dtype,
        )
        self.input_array.append(array)
        inputs = {"X": x, "RankTable": self._table()}
        apply("lod_tensor_to_array", inputs, {"Out": array}, block=parent)
        return array_read(array=array, i=step)

    def _rank(self, parent: Block, x: Variable, level: int, step: Variable) -> None:
        self.lod_rank_table = parent.create_var(
            name=names.generate("lod_rank_table"), type=VarType.LOD_RANK_TABLE
        )
        self.lod_rank_table.stop_gradient = True
        outputs, attrs = {"Out": self.lod_rank_table}, {"level": level}
        apply("lod_rank_table", {"X": x}, outputs, attrs, block=parent)
        self.max_seq_len = op(
            "max_sequence_len",
            {"RankTable": self.lod_rank_table},
            prefix="dynamic_rnn_max_seq_len",
            dtype=VarType.INT64,
            stop_gradient=True,
            block=parent,
        )
        inputs = {"X": step, "Y": self.max_seq_len}
        apply("less_than", inputs, {"Out": self.cond}, {"force_cpu": True}, block=parent)

    def static_input(self, x: Variable) -> Variable:
        """The same rows (sequences, if `x` has LoD) in each step, of those that go on."""
        step = self._require_block("static_input")
        check_variables("DynamicRNN.static_input", {"x": x})
        if self.lod_rank_table is None:
            raise RuntimeError("static_input() must be called after step_input().")
        reordered = self._reordered(x, "dynamic_rnn_static_input_reordered")
        return shrink_memory(reordered, step, self.lod_rank_table)

    def _reordered(self, x: Variable, prefix: str) -> Variable:
        inputs = {"X": x, "RankTable": self._table()}
        return op("reorder_lod_tensor_by_rank", inputs, prefix=prefix, block=self._parent())

    # -- what is kept and what comes out -------------------------------------------------

    def memory(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        value: float = 0.0,
        need_reorder: bool = False,
        dtype: Any = "float32",
    ) -> Variable:
        """The value that `update_memory` gave in the step before, at first `init`.

        Without `init`: `value` everywhere, a row of `shape` per sequence. need_reorder: `init` is
        in the order of the sequences as they were fed.
        """
        step = self._require_block("memory")
        parent = self._parent()
        zero = self._zero(parent)
        if init is None:
            init = self._boot(shape, value, dtype, zero)
        elif need_reorder:
            if self.lod_rank_table is None:
                raise ValueError(
                    "If set need_reorder to True, make sure step_input be invoked before "
                    "memory(init=init, need_reordered=True, ...)."
                )
            init = self._reordered(init, "dynamic_rnn_mem_init_reordered")
        check_variables("DynamicRNN.memory", {"init": init})
        array = parent.create_var(
            name=names.generate("dynamic_rnn_mem_array"),
            type=VarType.LOD_TENSOR_ARRAY,
            dtype=init.dtype,
        )
        apply("write_to_array", {"X": init, "I": zero}, {"Out": array}, block=parent)
        kept = shrink_memory(array_read(array=array, i=step), step, self._table())
        self.mem_dict[kept.name] = array
        return kept

    def _zero(self, parent: Block) -> Variable:
        if self.zero_idx is None:
            kind = VarType.INT64
            attrs = {"shape": [1], "dtype": int(kind), "value": 0.0, "force_cpu": True}
            how: How = {"prefix": "zero_idx", "dtype": kind, "block": parent}
            self.zero_idx = op("fill_constant", {}, attrs, **how)
        return self.zero_idx

    def _boot(
        self, shape: Sequence[int] | None, value: float, dtype: Any, zero: Variable
    ) -> Variable:
        if not self.input_array:
            raise ValueError("step_input should be invoked before memory(shape=..., value=...)")
        if shape is None:
            raise ValueError("memory needs either init or shape")
        parent = self._parent()
        inputs, kind = {"X": self.input_array[0], "I": zero}, as_dtype(dtype)
        first = op("read_from_array", inputs, prefix="in0", block=parent)
        attrs = {"shape": [-1, *shape], "value": float(value), "dtype": int(kind)}
        how: How = {"prefix": "mem_init", "dtype": kind, "stop_gradient": True, "block": parent}
        return op("fill_constant_batch_size_like", {"Input": first}, attrs, **how)

    def update_memory(self, ex_mem: Variable, new_mem: Variable) -> None:
        """The next step's `ex_mem` is `new_mem`."""
        self._require_block("update_memory")
        check_variables("DynamicRNN.update_memory", {"ex_mem": ex_mem, "new_mem": new_mem})
        array = self.mem_dict.get(ex_mem.name)
        if array is None:
            raise ValueError("Please invoke memory before update_memory")
        self.mem_link.append((new_mem, array))

    def output(self, *outputs: Variable) -> None:
        """Makes variables results: all their steps, in sequences."""
        step = self._require_block("output")
        parent = self._parent()
        for one in outputs:
            check_variables("DynamicRNN.output", {"output": one})
            array = parent.create_var(
                name=names.generate(f"{self.helper.name}_output_array_{one.name}"),
                type=VarType.LOD_TENSOR_ARRAY,
                dtype=one.dtype,
            )
            array_write(x=one, i=step, array=array)
            self.output_array.append(array)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The output, or a list of them where there are several."""
        if self.status != self.AFTER_RNN:
            raise ValueError("Output of the dynamic RNN can only be visited outside the rnn block.")
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

"""BeamSearchDecoder: a StateCell run step by step on the best words found so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from refluid.build import How, apply, op
from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.fluid import layers
from refluid.fluid.contrib.decoder.state_cell import InitState, Keeper, StateCell
from refluid.fluid.functions.math.comparison import less_than
from refluid.fluid.functions.tensor.shaping import is_empty
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.block import Block
from refluid.ir.variable import Variable


class _StateArray:
    """A state, one element of an array per step."""

    def __init__(self, decoder: BeamSearchDecoder, init: InitState) -> None:
        self._decoder = decoder
        self._value = decoder.read_array(init.value)

    def get(self) -> Variable:
        """The element of this step."""
        return self._value

    def update(self, value: Variable) -> None:
        """Writes the element of the next step."""
        self._decoder.update_array(self._value, value)


class BeamSearchDecoder:
    """Finds the best sequences that a cell gives, `beam_size` per example.

    init_ids, init_scores: the first words, int64 (n, 1), and their scores, (n, 1), both with two
    LoD levels. target_dict_dim: words; word_dim: width of their embedding. input_var_dict: the
    cell's other inputs by name. topk_size: words looked at per beam. max_len: most steps. Calling
    the decoder after `decode` gives (ids, scores) of the sentences, LoDTensors of two levels.
    Raises ValueError for methods called outside of the block.
    """

    BEFORE_BEAM_SEARCH_DECODER, IN_BEAM_SEARCH_DECODER, AFTER_BEAM_SEARCH_DECODER = range(3)

    def __init__(
        self,
        state_cell: StateCell,
        init_ids: Variable,
        init_scores: Variable,
        target_dict_dim: int,
        word_dim: int,
        input_var_dict: Mapping[str, Variable] = {},
        topk_size: int = 50,
        sparse_emb: bool = True,
        max_len: int = 100,
        beam_size: int = 1,
        end_id: int = 1,
        name: str | None = None,
    ) -> None:
        self._helper = LayerHelper("beam_search_decoder", name=name)
        self._counter = layers.zeros(shape=[1], dtype="int64", force_cpu=True)
        self._counter.stop_gradient = True
        self._max_len = layers.fill_constant(shape=[1], dtype="int64", value=max_len)
        self._cond = less_than(x=self._counter, y=self._max_len)
        self._while_op = layers.While(self._cond)
        self._state_cell = state_cell
        self._init_ids, self._init_scores = init_ids, init_scores
        self._target_dict_dim, self._word_dim = target_dict_dim, word_dim
        self._input_var_dict = dict(input_var_dict)
        self._topk_size, self._sparse_emb = topk_size, sparse_emb
        self._beam_size, self._end_id = beam_size, end_id
        self._status = self.BEFORE_BEAM_SEARCH_DECODER
        self._zero_idx: Variable | None = None
        self._arrays: dict[str, Variable] = {}
        self._links: list[tuple[Variable, Variable]] = []
        self._ids_array: Variable | None = None
        self._scores_array: Variable | None = None

    @contextmanager
    def block(self) -> Iterator[None]:
        """Layers within the `with` block are those of one step."""
        if self._status != self.BEFORE_BEAM_SEARCH_DECODER:
            raise ValueError("block() can only be invoked once.")
        self._status = self.IN_BEAM_SEARCH_DECODER
        with self._while_op.block():
            self._state_cell.enter(self._keeper)
            yield
            with layers.Switch() as switch, switch.case(self._cond):
                layers.increment(x=self._counter, value=1.0, in_place=True)
                for value, array in self._links:
                    layers.array_write(x=value, i=self._counter, array=array)
                less_than(x=self._counter, y=self._max_len, cond=self._cond)
            self._state_cell.leave()
        self._status = self.AFTER_BEAM_SEARCH_DECODER

    def _keeper(self, init: InitState) -> Keeper:
        return _StateArray(self, init)

    @property
    def state_cell(self) -> StateCell:
        """The cell, in the block."""
        self._require_block("state_cell")
        return self._state_cell

    @property
    def type(self) -> str:
        """`beam_search`"""
        return "beam_search"

    def early_stop(self) -> None:
        """Makes this step the last one."""
        layers.fill_constant(shape=[1], value=0, dtype="bool", force_cpu=True, out=self._cond)

    def decode(self) -> None:
        """The usual step: the cell, a softmax over all words, and the best words of all beams."""
        with self.block():
            ids = self.read_array(init=self._init_ids, is_ids=True)
            scores = self.read_array(init=self._init_scores, is_scores=True)
            words = layers.embedding(
                input=ids,
                size=[self._target_dict_dim, self._word_dim],
                dtype="float32",
                is_sparse=self._sparse_emb,
            )
            others = self._other_inputs()
            feeds = {name: layers.sequence_expand(var, scores) for name, var in others.items()}
            for state in self._state_cell.state_names:
                before = self._state_cell.get_state(state)
                self._state_cell.set_state(state, layers.sequence_expand(before, scores))
            mine = set(self._state_cell.input_names) - set(others)
            self._state_cell.compute_state(inputs=feeds | dict.fromkeys(sorted(mine), words))
            chosen, values = self._search(ids, scores)
            with layers.Switch() as switch:
                with switch.case(is_empty(chosen)):
                    self.early_stop()
                with switch.default():
                    self._state_cell.update_states()
                    self.update_array(ids, chosen)
                    self.update_array(scores, values)
                    for name, var in others.items():
                        self.update_array(var, feeds[name])

    def _other_inputs(self) -> dict[str, Variable]:
        unknown = set(self._input_var_dict) - set(self._state_cell.input_names)
        if unknown:
            raise ValueError(f"Variable {sorted(unknown)[0]} not found in StateCell!")
        return {name: self.read_array(init=var) for name, var in self._input_var_dict.items()}

    def _search(self, ids: Variable, scores: Variable) -> tuple[Variable, Variable]:
        state = layers.lod_reset(x=self._state_cell.out_state(), y=scores)
        probs = layers.fc(input=state, size=self._target_dict_dim, act="softmax")
        best, indices = layers.topk(probs, k=self._topk_size)
        sums = layers.elementwise_add(
            x=layers.log(best), y=layers.reshape(scores, shape=[-1]), axis=0
        )
        found: tuple[Variable, Variable] = layers.beam_search(
            ids, scores, indices, sums, self._beam_size, end_id=self._end_id, level=0
        )
        return found

    def read_array(self, init: Variable, is_ids: bool = False, is_scores: bool = False) -> Variable:
        """The present step's element of a new array that begins with `init`.

        is_ids, is_scores: the array holds the words, or their scores, of the result.
        """
        self._require_block("read_array")
        if is_ids and is_scores:
            raise ValueError("Shouldn't mark current array be ids array and scores array at once.")
        parent = self._parent()
        array = parent.create_var(
            name=names.generate("beam_search_decoder_array"),
            type=VarType.LOD_TENSOR_ARRAY,
            dtype=init.dtype,
        )
        inputs = {"X": init, "I": self._zero(parent)}
        apply("write_to_array", inputs, {"Out": array}, block=parent)
        if is_ids:
            self._ids_array = array
        if is_scores:
            self._scores_array = array
        value = layers.array_read(array=array, i=self._counter)
        self._arrays[value.name] = array
        return value

    def update_array(self, array: Variable, value: Variable) -> None:
        """The next step reads `value` where this one read `array`."""
        self._require_block("update_array")
        if array.name not in self._arrays:
            raise ValueError("Please invoke read_array before update_array.")
        self._links.append((value, self._arrays[array.name]))

    def _zero(self, parent: Block) -> Variable:
        if self._zero_idx is None:
            kind = VarType.INT64
            attrs = {"shape": [1], "dtype": int(kind), "value": 0.0, "force_cpu": True}
            how: How = {"prefix": "zero_idx", "dtype": kind, "block": parent}
            self._zero_idx = op("fill_constant", None, attrs, **how)
        return self._zero_idx

    def _parent(self) -> Block:
        """The block around the loop."""
        program = self._helper.main_program
        return program.block(self._cond.block.idx)

    def _require_block(self, what: str) -> None:
        if self._status != self.IN_BEAM_SEARCH_DECODER:
            raise ValueError(f"{what} should be invoked in the block of BeamSearchDecoder.")

    def __call__(self) -> tuple[Variable, Variable]:
        """(ids, scores) of the sentences found."""
        if self._status != self.AFTER_BEAM_SEARCH_DECODER:
            raise ValueError("Output of BeamSearchDecoder can only be visited outside the block.")
        assert self._ids_array is not None
        assert self._scores_array is not None
        found: tuple[Variable, Variable] = layers.beam_search_decode(
            ids=self._ids_array,
            scores=self._scores_array,
            beam_size=self._beam_size,
            end_id=self._end_id,
        )
        return found

"""What dynamic RNNs and IfElse are made of: sequences by length, steps, and rows by a mask."""

from __future__ import annotations

from refluid.build import apply, check_variables, op
from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def lod_rank_table(x: Variable, level: int = 0) -> Variable:
    """The sequences of `x` on that LoD level, ranked by length."""
    check_variables("lod_rank_table", {"x": x})
    helper = LayerHelper("lod_rank_table")
    table = helper.create_variable(
        type=VarType.LOD_RANK_TABLE, name=names.generate("lod_rank_table")
    )
    apply("lod_rank_table", {"X": x}, {"Out": table}, {"level": level})
    return table


def max_sequence_len(rank_table: Variable) -> Variable:
    """The length of the longest sequence of a rank table, int64 of shape (1,)."""
    return op(
        "max_sequence_len", {"RankTable": rank_table}, dtype=VarType.INT64, layer="max_seqence_len"
    )


def lod_tensor_to_array(x: Variable, table: Variable) -> Variable:
    """An array whose element t holds the t-th rows of the sequences of `x`, longest first."""
    check_variables("lod_tensor_to_array", {"x": x, "table": table})
    helper = LayerHelper("lod_tensor_to_array")
    array = helper.create_variable(
        name=names.generate("lod_tensor_to_array"),
        type=VarType.LOD_TENSOR_ARRAY,
        dtype=x.dtype,
    )
    apply("lod_tensor_to_array", {"X": x, "RankTable": table}, {"Out": array})
    return array


def array_to_lod_tensor(x: Variable, table: Variable) -> Variable:
    """The inverse of `lod_tensor_to_array`."""
    check_variables("array_to_lod_tensor", {"x": x, "table": table})
    return op("array_to_lod_tensor", {"X": x, "RankTable": table})


def shrink_memory(x: Variable, i: Variable, table: Variable) -> Variable:
    """The first rows (or sequences) of `x`, of the sequences that go on at step `i`."""
    return op(
        "shrink_rnn_memory", {"X": [x], "I": [i], "RankTable": [table]}, layer="shrink_memory"
    )


def reorder_lod_tensor_by_rank(x: Variable, rank_table: Variable) -> Variable:
    """The sequences of `x` (its rows, if it has no LoD) in the order of the rank table."""
    check_variables("reorder_lod_tensor_by_rank", {"x": x, "rank_table": rank_table})
    if rank_table.type != VarType.LOD_RANK_TABLE:
        raise TypeError("The type of rank_table should be LOD_RANK_TABLE.")
    return op("reorder_lod_tensor_by_rank", {"X": [x], "RankTable": [rank_table]})


def split_lod_tensor(input: Variable, mask: Variable, level: int = 0) -> tuple[Variable, Variable]:
    """(sequences or rows of `input` for which `mask`, bool (n, 1), holds; the others)."""
    check_variables("split_lod_tensor", {"input": input, "mask": mask})
    inputs, makes = {"X": input, "Mask": mask}, ("OutTrue", "OutFalse")
    out_true, out_false = op("split_lod_tensor", inputs, {"level": level}, makes)
    return out_true, out_false


def merge_lod_tensor(
    in_true: Variable, in_false: Variable, x: Variable, mask: Variable, level: int = 0
) -> Variable:
    """The inverse of `split_lod_tensor`; `x` says which LoD levels lie above `level`."""
    check_variables("merge_lod_tensor", {"in_true": in_true, "in_false": in_false, "x": x})
    inputs = {"X": x, "Mask": mask, "InTrue": in_true, "InFalse": in_false}
    return op("merge_lod_tensor", inputs, {"level": level}, dtype=in_true.dtype)

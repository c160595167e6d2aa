"""chunk_eval: how many chunks of a tagged sequence are found."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.ir.variable import Variable


def chunk_eval(
    input: Variable,
    label: Variable,
    chunk_scheme: str,
    num_chunk_types: int,
    excluded_chunk_types: Sequence[int] | None = None,
    seq_length: Variable | None = None,
) -> tuple[Variable, ...]:
    """Precision, recall, F1 of chunks; numbers of chunks inferred, labelled and correct.

    input, label: int64 tags with LoD, or padded with `seq_length`. chunk_scheme: IOB, IOE, IOBES
    or plain. Each result has shape (1,): float32 the first three, int64 the others.
    """
    inputs = {"Inference": input, "Label": label, "SeqLength": seq_length}
    makes = dict.fromkeys(("Precision", "Recall", "F1-Score"), VarType.FP32)
    numbers = ("NumInferChunks", "NumLabelChunks", "NumCorrectChunks")
    attrs = {
        "num_chunk_types": num_chunk_types,
        "chunk_scheme": chunk_scheme,
        "excluded_chunk_types": list(excluded_chunk_types or ()),
    }
    return op("chunk_eval", inputs, attrs, makes | dict.fromkeys(numbers, VarType.INT64))

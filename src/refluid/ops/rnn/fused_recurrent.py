"""Recurrent operators that multiply their input by its weights themselves; for inference."""

from __future__ import annotations

from torch import Tensor

from refluid.core.offsets import Levels
from refluid.ir.operator import Operator
from refluid.ops.registry import OperatorDef, operator
from refluid.ops.rnn import gru as gru_family
from refluid.ops.rnn import lstm as lstm_family
from refluid.ops.rnn.gate_activations import activation
from refluid.ops.rnn.lstm_steps import lstm_forward, peephole_of
from refluid.ops.sequence.batching import steps_of

Made = tuple[Tensor | None, ...]


def _infer(definition: OperatorDef, op: Operator) -> None:
    """Hidden and Cell have the rows of the first input and the columns of WeightH's rows."""
    source = op.block.var_recursive(op.input(definition.inputs[0].name)[0])
    weight = op.block.var_recursive(op.input("WeightH")[0])
    if not (source.has_description() and weight.has_description()):
        return
    for slot in ("Hidden", "Cell"):
        for name in op.outputs.get(slot, []):
            var = op.block.var_recursive(name)
            var.describe(shape=(source.shape[0], weight.shape[0]), dtype=weight.dtype)
            var.lod_level = source.lod_level


def _lstm(
    inputs: Tensor,
    given: tuple[Tensor, Tensor, Tensor | None, Tensor | None],
    acts: tuple[str, str, str],
    flags: tuple[bool, bool],
    lod: Levels,
) -> tuple[Tensor, Tensor, Made]:
    """Hidden, Cell, and batches of input, hidden and cell with the sorted initial states.

    given: WeightH, Bias, H0 and C0; acts: of gates, cell and candidate; flags: use_peepholes,
    is_reverse.
    """
    weight, bias, h0, c0 = given
    layout = steps_of(lod, "a fused LSTM", flags[1], inputs.device)
    peephole = peephole_of(bias, weight.shape[0], flags[0])
    one = lstm_family.recurrence(weight, peephole, acts)
    gates, state, cell = lstm_family.begin(inputs, bias, layout, h0, c0)
    made = lstm_forward(gates, layout.sizes, one, state, cell)
    batches = made.gates, made.hidden, made.cell, state, cell
    return layout.to_rows(made.hidden), layout.to_rows(made.cell), batches


@operator(
    "fusion_lstm",
    outputs=(
        "Hidden Cell XX? BatchedInput? BatchedHidden? BatchedCell? ReorderedH0? ReorderedC0? "
        "CheckedCell?"
    ),
    uses=None,
    infer=_infer,
)
def fusion_lstm(
    X: Tensor,
    WeightX: Tensor,
    WeightH: Tensor,
    Bias: Tensor,
    H0: Tensor | None = None,
    C0: Tensor | None = None,
    *,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    use_seq: bool = True,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    lod_X: Levels,
) -> Made:
    """`lstm` of X @ WeightX: X (rows, columns), WeightX (columns, 4 * width).

    The other inputs and attributes are those of `lstm`; use_seq changes nothing.
    """
    product = X @ WeightX
    acts = gate_activation, cell_activation, candidate_activation
    given, flags = (WeightH, Bias, H0, C0), (use_peepholes, is_reverse)
    hidden, cell, batches = _lstm(product, given, acts, flags, lod_X)
    return hidden, cell, product, *batches, None


@operator(
    "fused_embedding_fc_lstm",
    outputs=("Hidden Cell XX? BatchedInput? BatchedHidden? BatchedCell? ReorderedH0? ReorderedC0?"),
    uses=None,
    infer=_infer,
)
def fused_embedding_fc_lstm(
    Ids: Tensor,
    Embeddings: Tensor,
    WeightH: Tensor,
    Bias: Tensor,
    H0: Tensor | None = None,
    C0: Tensor | None = None,
    *,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    use_seq: bool = True,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    lod_Ids: Levels,
) -> Made:
    """`lstm` of the rows of Embeddings (ids, 4 * width) that Ids (rows, 1) name.

    Embeddings are multiplied by the input weights beforehand. The rest is as in `lstm`.
    """
    product = Embeddings.index_select(0, Ids.reshape(-1).long())
    acts = gate_activation, cell_activation, candidate_activation
    given, flags = (WeightH, Bias, H0, C0), (use_peepholes, is_reverse)
    hidden, cell, batches = _lstm(product, given, acts, flags, lod_Ids)
    return hidden, cell, product, *batches


@operator(
    "fusion_gru",
    outputs="ReorderedH0? XX? BatchedInput? BatchedOut? Hidden",
    uses=None,
    infer=_infer,
)
def fusion_gru(
    X: Tensor,
    H0: Tensor | None,
    WeightX: Tensor,
    WeightH: Tensor,
    Bias: Tensor | None = None,
    *,
    activation_: str = "tanh",
    gate_activation: str = "sigmoid",
    is_reverse: bool = False,
    use_seq: bool = True,
    origin_mode: bool = False,
    lod_X: Levels,
) -> Made:
    """`gru` of X @ WeightX: X (rows, columns), WeightX (columns, 3 * width)."""
    layout = steps_of(lod_X, "fusion_gru", is_reverse, X.device)
    product = X @ WeightX
    acts = activation(gate_activation), activation(activation_)
    one = gru_family.gru_step(WeightH, *acts, origin_mode)
    gates, state = gru_family.begin(product, Bias, layout, H0)
    hidden = gru_family.gru_forward(gates, layout.sizes, one, state)[1]
    return state, product, gates, hidden, layout.to_rows(hidden)

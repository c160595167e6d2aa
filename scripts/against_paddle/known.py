"""Where paddle 2.6.2 is known to differ from Fluid 1.8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# Operator type -> why its results are not compared.
KNOWN: Mapping[str, str] = {
    "adam": "rates of decay of 1 and more give numbers instead of nan",
    "deformable_conv": "already the recorded run gives other numbers",
    "elementwise_floordiv": "rounds down, where the recorded runs cut towards zero",
    "elu": "other gradients of negative numbers than recorded",
    "generate_proposals": "already the recorded run gives other sizes",
    "hard_swish": "scale, threshold and offset have no effect",
    "mish": "threshold has no effect",
    "partial_concat": "a negative start reads past the rows",
    "relu6": "threshold has no effect",
    "roll": "already the recorded run differs: dims is called axis there",
    "tdm_child": "a child_nums that the tree has not is believed",
    "trace": "already the recorded run differs: dim1 and dim2 are called axis1 and axis2 there",
    "var_conv_2d": "already the recorded run gives other numbers",
    "while_grad": "rounds see each other's values where they overwrite what they read",
}
# Operators whose gradients have no sequences there.
WITHOUT_SEQUENCES = frozenset({"top_k"})
# Operator type, what the description of the change says, and why results are not compared then.
CHANGED: Sequence[tuple[str, str, str]] = (
    ("hard_shrink", "threshold -", "1.8 adds the parts above and below, which overlap then"),
    ("layer_norm", "gradient", "that of mean squares is zero but for rounding"),
    ("mean", "multiples of", "what cancels to zero but for rounding"),
    ("pad", "gradient", "1.8 copies packets across the ends of rows there"),
    ("warpctc", "0,", "a sequence without rows costs infinitely much there"),
    ("soft_relu", "threshold -", "log(1 + exp(-20)) is 0 there, log1p is not"),
    ("round", "multiples of", "1.8 rounds halves to even, as its recordings show"),
)


def why_not_compared(operators: Sequence[str], change: str) -> str:
    """The reason; nothing where results are compared."""
    for operator in operators:
        if operator in KNOWN:
            return KNOWN[operator]
        for changed, word, why in CHANGED:
            if operator == changed and word in change:
                return why
    return ""


# Operators of Fluid 1.8 that paddle 2.6.2 hasn't, or has with other inputs, in whole networks.
LACKING = frozenset(
    (
        "adadelta",
        "cos_sim",
        "cudnn_lstm",
        "expand_as",
        "group_norm",
        "lamb",
        "lars_momentum",
        "margin_rank_loss",
        "one_hot",
        "pad2d",
        "pad_constant_like",
        "prelu",
        "recurrent",
        "rnn_memory_helper",
        "space_to_depth",
    )
)
# Operators of networks of which the first step alone is compared: updates that divide by the size
# of gradients make any rounding of a gradient near 0 a step as long as others; and there what a
# branch gave that isn't taken this time is what it gave the last time.
FIRST_STEP_ONLY = frozenset(
    (
        "adagrad",
        "adam",
        "adamax",
        "decayed_adagrad",
        "ftrl",
        "merge_lod_tensor",
        "rmsprop",
    )
)

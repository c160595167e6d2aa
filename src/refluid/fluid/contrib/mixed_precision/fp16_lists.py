"""Which operators compute in half precision: Fluid's lists, and what users add to them."""

from __future__ import annotations

from collections.abc import Iterable

from refluid.passes.mixed_precision import FAST, FOLLOW, KEEP, PROMOTE, registered_class

__all__ = ["AutoMixedPrecisionLists"]

# Matrix arithmetic: always half.
white_list = {"conv2d", "matmul", "mul"}

# Losses, sums over much and steep functions: always float32.
black_list = {
    "cos_sim",
    "cross_entropy",
    "cross_entropy2",
    "exp",
    "log",
    "mean",
    "sigmoid_cross_entropy_with_logits",
    "softmax",
    "softmax_with_cross_entropy",
    "square",
    "sum",
}

# Safe either way: half where what they are given is.
gray_list = {
    "batch_norm",
    "cast",
    "concat",
    "dropout",
    "elementwise_add",
    "elementwise_div",
    "elementwise_floordiv",
    "elementwise_max",
    "elementwise_min",
    "elementwise_mod",
    "elementwise_mul",
    "elementwise_pow",
    "elementwise_sub",
    "flatten",
    "flatten2",
    "gather",
    "gaussian_random_batch_size_like",
    "leaky_relu",
    "pool2d",
    "pool3d",
    "relu",
    "relu6",
    "reshape",
    "reshape2",
    "scale",
    "sigmoid",
    "sign",
    "slice",
    "split",
    "squeeze",
    "squeeze2",
    "stack",
    "swish",
    "tanh",
    "top_k",
    "transpose",
    "transpose2",
    "unsqueeze",
    "unsqueeze2",
    "unstack",
}


class AutoMixedPrecisionLists:
    """The lists one program is rewritten by; `white_list`, `black_list`, `gray_list` are sets.

    custom_white_list: operator types that shall be half too. custom_black_list: that shall be
    float32. custom_black_varnames: operators that touch one of these variables are float32.

    Raises ValueError for an operator in both custom lists. Operators in no list have the class
    that refluid's own registry gives them: other matrix arithmetic is half, all else float32.
    """

    def __init__(
        self,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        custom_black_varnames: Iterable[str] | None = None,
    ) -> None:
        white, black = set(custom_white_list or ()), set(custom_black_list or ())
        both = white & black
        if both:
            raise ValueError(f"Custom white list overlap custom black list: {sorted(both)}")
        self._custom_white_list = custom_white_list
        self._custom_black_list = custom_black_list
        self.white_list = (white_list | white) - black
        self.black_list = (black_list | black) - white
        self.gray_list = gray_list - white - black
        self.black_varnames = set(custom_black_varnames or ())

    def classify(self, op_type: str) -> str:
        """`fast`, `keep`, `promote` or `follow` for an operator type."""
        if op_type in self.black_list:
            return KEEP
        if op_type in self.white_list:
            return FAST
        own = registered_class(op_type)
        if op_type in self.gray_list:
            return PROMOTE if own == PROMOTE else FOLLOW
        return own if own in (FAST, PROMOTE) else KEEP

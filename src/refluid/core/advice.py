"""What to do about an error, for reasons that PyTorch's kernels give in their own words."""

from __future__ import annotations

import re

# The first whose pattern is found counts.
_ADVICE = [
    (
        r"Kernel size can't be greater|Output size is too small|kernel size should be",
        "the window (filter_size, pool_size) is larger than the padded input: make it smaller, "
        "pad more, or feed larger images",
    ),
    (
        r"expected input\[.*\] to have \d+ channels|channels, but got \d+ channels",
        "the filter was made for another number of channels: see the shape that the input was "
        "declared with, and the order of its dimensions (NCHW, unless data_format says NHWC)",
    ),
    (
        r"mat1 and mat2 shapes cannot be multiplied|size mismatch, got|"
        r"Expected size for first two dimensions of batch2",
        "the columns of the first must be as many as the rows of the second: see "
        "num_flatten_dims, transpose_x, transpose_y, and the size that the weight was made for",
    ),
    (
        r"must match the size of tensor b|shapes? mismatch|not broadcastable|doesn't broadcast|"
        r"must match the existing size",
        "sizes have to be equal, or 1: reshape or unsqueeze one of the two, or give axis=, the "
        "dimension of X at which those of Y begin",
    ),
    (
        r"Sizes of tensors must match except in dimension",
        "what is joined must be equal in all dimensions but `axis`",
    ),
    (
        r"shape '.*' is invalid for input of size",
        "reshape keeps the number of elements: leave one dimension as -1, and mind the rows of "
        "the last batch",
    ),
    (
        r"[Ee]xpected all tensors to be on the same device",
        "run the startup program, and load what was saved, by an executor of the place that "
        "trains: variables stay on the place where they were made",
    ),
    (
        r"expected scalar type|expected .* to have the same dtype|must have the same dtype|"
        r"not implemented for '\w+'|Found dtype|but found \w+|type \(\w+\) should be the same",
        "the element types don't go together: use layers.cast, or feed the declared type (NumPy "
        "makes float64 and int64)",
    ),
    (
        r"Expected dtype int32/int64 for index|scalar types: Long, Int; but got",
        "labels and ids are integers: declare the variable with dtype='int64', and feed such "
        "numbers, or use layers.cast",
    ),
    (
        r"holds a number that is no class",
        "labels are from 0 to the number of classes - 1; the size of the layer before is that "
        "number, and ignore_index, where the layer has it, names a label that is left out",
    ),
    (
        r"out of memory|can't allocate memory|not enough memory",
        "use smaller batches; `refluid run --memory PAGE.html` tells what takes the memory",
    ),
]
_FOUND = [(re.compile(pattern), advice) for pattern, advice in _ADVICE]


_OUTSIDE = re.compile(
    r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)|index out of range in self"
)


def number_outside(reason: str) -> tuple[str | None, str | None] | None:
    """The number and how many there are, of a reason that says that it is none of them.

    Two Nones where it doesn't say which; None for any other reason.
    """
    found = _OUTSIDE.search(reason)
    return None if found is None else (found[1], found[2])


def advice_for(reason: str) -> str | None:
    """What to do where an operator failed for this reason; None where nothing is known."""
    return next((advice for pattern, advice in _FOUND if pattern.search(reason)), None)


def fix_line(reason: str) -> str:
    """`\\nFix: ...`, or nothing."""
    advice = advice_for(reason)
    return f"\nFix: {advice}" if advice else ""

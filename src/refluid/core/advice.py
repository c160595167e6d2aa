"""What to do about an error, for reasons that PyTorch's kernels give in their own words."""

from __future__ import annotations

import re

from refluid.core.errors import EnforceNotMet

_SIZES = "the sizes of its inputs don't go together"
_TYPES = "it can't compute with these types of elements"
_RANK = "an input has another number of dimensions than it needs"
_EMPTY = "an input has nothing where something is needed"
_CAST = (
    "use layers.cast, or feed the declared type (NumPy makes float64 and int64): one type for all "
    "inputs, which the layer takes"
)
# What the reason means, in plain words where its own are about tensors of torch's, and what to do.
# The first whose pattern is found counts.
_ADVICE = [
    (
        r"Kernel size can't be greater|Output size is too small|kernel size should be",
        "",
        "the window (filter_size, pool_size) is larger than the padded input: make it smaller, "
        "pad more, or feed larger images",
    ),
    (
        r"expected input\[.*\] to have \d+ channels|channels, but got \d+ channels",
        "",
        "the filter was made for another number of channels: see the shape that the input was "
        "declared with, and the order of its dimensions (NCHW, unless data_format says NHWC)",
    ),
    (
        r"mat1 and mat2 shapes cannot be multiplied|size mismatch, got|same reduction dim|"
        r"Expected size for first two dimensions of batch2",
        _SIZES,
        "the columns of the first must be as many as the rows of the second: see "
        "num_flatten_dims, transpose_x, transpose_y, and the size that the weight was made for",
    ),
    (
        r"must match the size of tensor b|shapes? mismatch|not broadcastable|doesn't broadcast|"
        r"must match the existing size|[Aa]ttempting to broadcast|match the broadcast shape",
        _SIZES,
        "sizes have to be equal, or 1: reshape or unsqueeze one of the two, or give axis=, the "
        "dimension of X at which those of Y begin",
    ),
    (
        r"Sizes of tensors must match except in dimension",
        _SIZES,
        "what is joined must be equal in all dimensions but `axis`",
    ),
    (
        r"stack expects each tensor to be equal size",
        _SIZES,
        "what is stacked must be of one shape",
    ),
    (
        r"shape '.*' is invalid for input of size",
        "",
        "reshape keeps the number of elements: leave one dimension as -1, and mind the rows of "
        "the last batch",
    ),
    (
        r"[Ee]xpected all tensors to be on the same device",
        "",
        "run the startup program, and load what was saved, by an executor of the place that "
        "trains: variables stay on the place where they were made",
    ),
    (
        r"Expected dtype int32/int64 for index|scalar types: Long, Int; but got|"
        r"Expected dtype int32 or int64 for index|expected target dtype to be",
        _TYPES,
        "labels and ids are integers: declare the variable with dtype='int64', and feed such "
        "numbers, or use layers.cast",
    ),
    (
        r"expected scalar type|expected (.* )?to have the same dtype|unsupported data type|"
        r"destination dtypes match|expects float, |must have the same dtype|"
        r"not implemented for '\w+'|Found dtype|but found \w+|type \(\w+\) should be the same|"
        r"same scalar type|Type promoting not supported|[Cc]annot be safely cast|"
        r"can't be cast to the desired|could not infer output dtype|[Bb]ool(ean)? (input|dtype)|"
        r"a floating.point (or complex|input)|bool tensors?|Promotion of int|"
        r"cannot be converted to type",
        _TYPES,
        _CAST,
    ),
    (r"does not have kernel for data_type|of one type, and \S+ is of another", "", _CAST),
    (
        r"holds a number that is no class",
        "",
        "labels are from 0 to the number of classes - 1; the size of the layer before is that "
        "number, and ignore_index, where the layer has it, names a label that is left out",
    ),
    (
        r"out of memory|can't allocate memory|not enough memory",
        "",
        "use smaller batches; `refluid run --memory PAGE.html` tells what takes the memory",
    ),
    (
        r"tensor shape must match|must have same slice shapes|to be no larger than self|"
        r"should be equal to (source|tensor)\.size|to have same batch size|batch_size|"
        r"dimensions do not match|does not match the shape|shape compatible with",
        _SIZES,
        "see the shapes above, and which of them the layer's documentation takes together",
    ),
    (
        r"Dimension out of range|values to unpack|(tuple|list) index out of range|zip\(\) arg|"
        r"must be a \d-?D tensor|[Nn]umber of dimensions|dimensionality must match|"
        r"too many indices for tensor|supports 1-d|Expected \d-dimensional",
        _RANK,
        "see the shapes above: reshape, squeeze or unsqueeze the input to the dimensions in the "
        "layer's documentation, and mind axis",
    ),
    (
        r"cannot reshape tensor of 0 elements|zero-size dimension|to have non-zero size|"
        r"at least one element|dim should be positive",
        _EMPTY,
        "feed at least one row, or leave the layer out where there is none",
    ),
]
_FOUND = [(re.compile(pattern), plain, advice) for pattern, plain, advice in _ADVICE]


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
    return next((advice for pattern, _, advice in _FOUND if pattern.search(reason)), None)


def in_plain_words(error: Exception) -> str:
    """What an error says; where these are Python's or torch's words, after what they mean."""
    says = str(error)
    if isinstance(error, EnforceNotMet):
        return says
    plain = next((plain for pattern, plain, _ in _FOUND if pattern.search(says)), "")
    return f"{plain} ({says})" if plain else says


def fix_line(reason: str) -> str:
    """`\\nFix: ...`, or nothing."""
    advice = advice_for(reason)
    return f"\nFix: {advice}" if advice else ""

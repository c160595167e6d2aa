"""The hierarchical sigmoid with parameters of its own."""

from __future__ import annotations

from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.nn.functional.likelihoods import hsigmoid_loss
from refluid.paddle.nn.layer.layers import Layer


class HSigmoidLoss(Layer):
    """The cost of the way to each label in a binary tree of classes, whose nodes it has.

    feature_size: of what it is given. is_custom: the ways are given with each call, and there are
    `num_classes` nodes; else a complete tree of `num_classes` leaves. ValueError for fewer than 2.
    """

    def __init__(
        self,
        feature_size: int,
        num_classes: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        is_custom: bool = False,
        is_sparse: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if num_classes < 2 and not is_custom:
            raise ValueError("num_classes must not be less than 2 with default tree")
        nodes = num_classes if is_custom else num_classes - 1
        self._count, self._is_custom = num_classes, is_custom
        self._is_sparse, self._name = is_sparse, name
        self.weight = self.create_parameter([nodes, feature_size], weight_attr)
        self.bias = self.create_parameter([nodes, 1], bias_attr, is_bias=True)

    def forward(
        self,
        input: Variable,
        label: Variable,
        path_table: Variable | None = None,
        path_code: Variable | None = None,
    ) -> Variable:
        """The costs (N, 1)."""
        paths = path_table, path_code, self._is_sparse, self._name
        return hsigmoid_loss(input, label, self._count, self.weight, self.bias, *paths)

"""Trees: tree_conv, and the class trees of deep matching, tdm_child and tdm_sampler."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from refluid.build import How, op
from refluid.core.dtypes import as_dtype
from refluid.fluid.functions.tensor.shaping import reshape
from refluid.fluid.functions.tensor.slicing import slice
from refluid.fluid.initializer import Constant
from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.param_attr import to_attr
from refluid.ir.variable import Variable

__all__ = ["tdm_child", "tdm_sampler", "tree_conv"]

_BEFORE_CHILDREN = 3
Samples = list[Variable] | Variable


def tree_conv(
    nodes_vector: Variable,
    edge_set: Variable,
    output_size: int,
    num_filters: int = 1,
    max_depth: int = 2,
    act: str | None = "tanh",
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """Tree-based convolution: (B, nodes, output_size, num_filters).

    nodes_vector: (B, nodes, features). edge_set: int32 (B, edges, 2), parent and child counted
    from 1, zeros after the last edge. max_depth: levels of a window.
    """
    helper = LayerHelper(
        "tree_conv", act=act, param_attr=param_attr, bias_attr=bias_attr, name=name
    )
    dtype = nodes_vector.dtype
    shape = [nodes_vector.shape[2], 3, output_size, num_filters]
    weight = helper.create_parameter(helper.param_attr, shape, dtype)
    out = None if name is None else helper.create_variable(name=name, dtype=dtype)
    inputs = {"NodesVector": nodes_vector, "EdgeSet": edge_set, "Filter": weight}
    out = op("tree_conv", inputs, {"max_depth": max_depth}, out=out, layer=helper)
    return helper.append_activation(helper.append_bias_op(out))


def _table(helper: LayerHelper, attr: Any, shape: list[int], dtype: Any) -> Variable:
    """A table of node numbers, which isn't trained."""
    table: Variable = helper.create_parameter(
        to_attr(attr), shape, dtype, default_initializer=Constant(0)
    )
    table.stop_gradient = True
    return table


def tdm_child(
    x: Variable, node_nums: int, child_nums: int, param_attr: Any = None, dtype: Any = "int32"
) -> tuple[Variable, Variable]:
    """The children of nodes `x`, (N, 1), as (N, 1, child_nums), and which are leaves (0 or 1).

    The tree is a parameter (node_nums, 3 + child_nums): item, layer, parent and children of each
    node; 0 is no node.
    """
    helper = LayerHelper("tdm_child")
    kind = as_dtype(dtype)
    tree = _table(helper, param_attr, [node_nums, _BEFORE_CHILDREN + child_nums], "int32")
    attrs = {"child_nums": child_nums, "dtype": int(kind)}
    inputs, makes = {"X": x, "TreeInfo": tree}, ("Child", "LeafMask")
    child, leaf = op("tdm_child", inputs, attrs, makes, dtype=kind, layer=helper)
    return child, leaf


def tdm_sampler(
    x: Variable,
    neg_samples_num_list: Sequence[int],
    layer_node_num_list: Sequence[int],
    leaf_node_num: int,
    tree_travel_attr: Any = None,
    tree_layer_attr: Any = None,
    output_positive: bool = True,
    output_list: bool = True,
    seed: int = 0,
    tree_dtype: Any = "int32",
    dtype: Any = "int32",
) -> tuple[Samples, Samples, Samples]:
    """For leaves `x`, (N, 1), their ancestor in each layer and other nodes of that layer.

    Returns nodes, labels (1 for ancestors) and masks (0 where there is none), each a list of
    (N, samples, 1) per layer, or one variable (N, all samples) without output_list.
    layer_node_num_list: nodes per layer, the root's left out. Two parameters hold the tree:
    ancestors per leaf (leaf_node_num, layers) and the nodes of all layers (nodes, 1).

    ValueError where numbers of layers differ or a layer has too few nodes to sample from.
    """
    helper = LayerHelper("tdm_sampler")
    _check_layers(neg_samples_num_list, layer_node_num_list)
    kind, layers = as_dtype(dtype), len(layer_node_num_list)
    travel = _table(helper, tree_travel_attr, [leaf_node_num, layers], tree_dtype)
    nodes = _table(helper, tree_layer_attr, [sum(layer_node_num_list), 1], tree_dtype)
    attrs = {
        "neg_samples_num_list": list(neg_samples_num_list),
        "output_positive": output_positive,
        "layer_offset_lod": [0, *accumulate(layer_node_num_list)],
        "seed": seed,
        "dtype": int(kind),
    }
    inputs = {"X": x, "Travel": travel, "Layer": nodes}
    how: How = {"dtype": kind, "stop_gradient": True, "layer": helper}
    out, labels, mask = made = op("tdm_sampler", inputs, attrs, ("Out", "Labels", "Mask"), **how)
    if not output_list:
        return out, labels, mask
    widths = [count + int(output_positive) for count in neg_samples_num_list]
    parts = _by_layer(made, widths)
    return parts[0], parts[1], parts[2]


def _check_layers(samples: Sequence[int], nodes: Sequence[int]) -> None:
    if len(samples) != len(nodes):
        raise ValueError(
            f"tdm_sampler: {len(samples)} numbers of samples for {len(nodes)} layers of nodes"
        )
    for layer, (count, available) in enumerate(zip(samples, nodes, strict=True)):
        if count >= available:
            raise ValueError(
                f"tdm_sampler: layer {layer} has {available} nodes, too few for {count} samples "
                "besides the positive one"
            )


def _by_layer(made: Sequence[Variable], widths: list[int]) -> list[list[Variable]]:
    """The columns of each layer, as (N, width, 1)."""
    parts: list[list[Variable]] = [[], [], []]
    begin = 0
    for width in widths:
        cut = [slice(one, axes=[1], starts=[begin], ends=[begin + width]) for one in made]
        for place, one in enumerate(cut):
            part = reshape(one, [-1, width, 1])
            part.stop_gradient = True
            parts[place].append(part)
        begin += width
    return parts

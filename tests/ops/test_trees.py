"""Trees: convolution over subtrees, children and sampled nodes of class trees."""

from __future__ import annotations

import numpy as np

from tests.ops.running import Array, check_gradient, run_op

RANDOM = np.random.RandomState(2)
#      1
#    / | \
#   2  3  4      and 3 has the children 5 and 6
EDGES = np.array([[[1, 2], [1, 3], [1, 4], [3, 5], [3, 6], [0, 0]]], "int32")


def _window(node: int, max_depth: int) -> list[tuple[int, float, float, float]]:
    """(node, left, right, top) below a node, by walking the tree."""
    children: dict[int, list[int]] = {}
    for parent, child in EDGES[0]:
        if parent:
            children.setdefault(int(parent), []).append(int(child))
    found = [(node, 0.0, 0.0, 1.0)]
    level = [node]
    for depth in range(1, max_depth):
        up = (max_depth - depth) / max_depth
        following = []
        for parent in level:
            below = children.get(parent, [])
            for place, child in enumerate(below):
                left = (1 - up) * (0.5 if len(below) == 1 else place / (len(below) - 1))
                found.append((child, left, (1 - up) * (1 - left), up))
                following.append(child)
        level = following
    return found


def _tree_conv(nodes: Array, weights: Array, max_depth: int) -> Array:
    out = np.zeros((1, nodes.shape[1], *weights.shape[2:]))
    for node in range(1, 7):
        for child, left, right, top in _window(node, max_depth):
            for kind, share in enumerate((left, right, top)):
                out[0, node - 1] += share * np.tensordot(nodes[0, child - 1], weights[:, kind], 1)
    return out


def test_tree_conv() -> None:
    nodes, weights = RANDOM.standard_normal((1, 8, 3)), RANDOM.standard_normal((3, 3, 4, 2))
    inputs = {"NodesVector": nodes, "EdgeSet": EDGES, "Filter": weights}
    for depth in (1, 2, 3):
        found = run_op("tree_conv", inputs, {"max_depth": depth})
        np.testing.assert_allclose(found["Out"], _tree_conv(nodes, weights, depth), atol=1e-12)
    check_gradient("tree_conv", inputs, {"max_depth": 3}, wrt=["NodesVector", "Filter"])


def test_tree_conv_takes_a_batch_of_trees() -> None:
    nodes = RANDOM.standard_normal((2, 8, 3))
    weights = RANDOM.standard_normal((3, 3, 4, 2))
    none = np.zeros_like(EDGES)
    inputs = {"NodesVector": nodes, "EdgeSet": np.concatenate([none, EDGES]), "Filter": weights}
    found = run_op("tree_conv", inputs, {"max_depth": 2})["Out"]
    np.testing.assert_allclose(found[1:], _tree_conv(nodes[1:], weights, 2), atol=1e-12)
    np.testing.assert_allclose(found[0, 0], np.tensordot(nodes[0, 0], weights[:, 2], 1))
    assert not found[0, 1:].any()


def test_a_node_that_is_met_again_counts_once() -> None:
    nodes, weights = RANDOM.standard_normal((1, 4, 3)), RANDOM.standard_normal((3, 3, 4, 2))
    inputs = {"NodesVector": nodes, "EdgeSet": np.ones((1, 3, 2), "int32"), "Filter": weights}
    alone = np.einsum("bnf,foc->bnoc", nodes, weights[:, 2])
    for depth in (2, 3):
        found = run_op("tree_conv", inputs, {"max_depth": depth})["Out"]
        np.testing.assert_allclose(found, alone, atol=1e-12)
    ring = np.array([[[1, 2], [2, 3], [3, 1]]], "int32")
    weights[:, :2] = 0
    inputs |= {"EdgeSet": ring, "Filter": weights}
    found = run_op("tree_conv", inputs, {"max_depth": 6})["Out"]
    shares = np.array([[6, 5, 4], [4, 6, 5], [5, 4, 6]]) / 6
    wanted = np.einsum("uv,bvf,foc->buoc", shares, nodes[:, :3], weights[:, 2])
    np.testing.assert_allclose(found[:, :3], wanted, atol=1e-12)


# item, layer, parent, children; nodes 3 to 6 are leaves, 0 is no node.
TREE = np.array(
    [
        [0, 0, 0, 0, 0],
        [0, 0, 0, 2, 3],
        [0, 1, 1, 4, 5],
        [7, 1, 1, 0, 0],
        [8, 2, 2, 0, 0],
        [9, 2, 2, 0, 0],
    ],
    "int64",
)


def test_tdm_child() -> None:
    nodes = np.array([[1], [2], [3], [0]], "int64")
    found = run_op("tdm_child", {"X": nodes, "TreeInfo": TREE}, {"child_nums": 2, "dtype": 3})
    np.testing.assert_array_equal(found["Child"][:, 0], [[2, 3], [4, 5], [0, 0], [0, 0]])
    np.testing.assert_array_equal(found["LeafMask"][:, 0], [[0, 1], [1, 1], [0, 0], [0, 0]])
    assert found["Child"].dtype == np.int64


def _sample(positive: bool) -> dict[str, Array]:
    travel = np.array([[1, 3], [1, 4], [2, 0]], "int32")
    layers = np.array([[1], [2], [3], [4], [5], [6]], "int32")
    attrs = {
        "output_positive": positive,
        "neg_samples_num_list": [1, 3],
        "layer_offset_lod": [0, 2, 6],
        "dtype": 2,
    }
    leaves = np.array([[0], [1], [2], [1]], "int32")
    inputs = {"X": leaves, "Travel": travel, "Layer": layers}
    return run_op("tdm_sampler", inputs, attrs)


def test_tdm_sampler_takes_every_other_node_where_it_must() -> None:
    found = _sample(positive=True)
    np.testing.assert_array_equal(found["Labels"][0], [1, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(found["Out"][0, :3], [1, 2, 3])
    assert set(found["Out"][0, 3:]) == {4, 5, 6}
    # Leaf 2 has no ancestor in the second layer.
    np.testing.assert_array_equal(found["Out"][2], [2, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(found["Mask"][2], [1, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(found["Labels"][2], [1, 0, 0, 0, 0, 0])


def test_tdm_sampler_without_positives() -> None:
    found = _sample(positive=False)
    assert found["Out"].shape == (4, 4)
    assert not found["Labels"].any()
    assert set(found["Out"][1, 1:]) == {3, 5, 6}

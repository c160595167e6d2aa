"""Distributions written with operators."""

from __future__ import annotations

import numpy as np

from refluid import fluid
from tests.fluid.examples.feeds import Build

L = fluid.layers


def _value() -> fluid.Variable:
    value = L.create_tensor(dtype="float32")
    L.assign(np.array([0.8], dtype="float32"), value)
    return value


def _uniform() -> None:
    L.Uniform(low=3.0, high=4.0)
    L.Uniform(low=[1.0, 2.0], high=[3.0, 4.0])
    L.Uniform(low=[[1.0, 2.0], [3.0, 4.0]], high=[[1.5, 2.5], [3.5, 4.5]])
    L.Uniform(low=3.0, high=[5.0, 6.0, 7.0])
    value = _value()
    uniform = L.Uniform([0.0], [2.0])
    uniform.sample([2])
    uniform.entropy()
    uniform.log_prob(value)


def _normal() -> None:
    L.Normal(loc=0.0, scale=3.0)
    L.Normal(loc=[1.0, 2.0], scale=[11.0, 22.0]).sample([3])
    L.Normal(loc=1.0, scale=[11.0, 22.0])
    value = _value()
    one, other = L.Normal([0.0], [1.0]), L.Normal([0.5], [2.0])
    one.sample([2])
    one.entropy()
    one.log_prob(value)
    one.kl_divergence(other)


def _categorical() -> None:
    one = L.Categorical(np.array([-0.602, -0.602], dtype="float32"))
    other = L.Categorical(np.array([-0.102, -0.112], dtype="float32"))
    one.entropy()
    other.entropy()
    one.kl_divergence(other)


def _multivariate() -> None:
    pairs = (([0.3, 0.5], [[0.4, 0], [0, 0.5]]), ([0.2, 0.4], [[0.3, 0], [0, 0.4]]))
    one, other = (
        L.MultivariateNormalDiag(np.array(loc, "float32"), np.array(scale, "float32"))
        for loc, scale in pairs
    )
    one.entropy()
    other.entropy()
    one.kl_divergence(other)


EXAMPLES: dict[str, Build] = {
    "layers.Categorical-0": _categorical,
    "layers.MultivariateNormalDiag-0": _multivariate,
    "layers.Normal-0": _normal,
    "layers.Uniform-0": _uniform,
}

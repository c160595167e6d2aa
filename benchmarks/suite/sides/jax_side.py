"""JAX: the whole step under one jit, its arrays donated; sparse tables are updated by rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.suite.networks.jax_networks import NETWORKS, TABLES
from benchmarks.suite.networks.lstm_weights import split_lstms
from benchmarks.suite.networks.padding import padded
from benchmarks.suite.sides.side import Needs, Options, Weights
from benchmarks.suite.workloads import Optimizer, Workload
from refluid.measure.timing import Feed

LSTMS = {"lstm": ("lstm0", "lstm1"), "lstm_lod": ("lstm",), "seq2seq": ("encoder", "decoder")}
FIXED = (".bias.hh", ".running_mean", ".running_var")
State = Mapping[str, Any]


def clipped(gradients: State, clip: float) -> State:
    if not clip:
        return gradients
    squares = [jnp.square(gradient).sum() for gradient in gradients.values()]
    scale = clip / jnp.maximum(jnp.sqrt(sum(squares)), clip)
    return {name: gradient * scale for name, gradient in gradients.items()}


def update(setting: Optimizer, rate: Any, value: Any, gradient: Any, state: State) -> Any:
    """New value and new state of one weight, or of some rows of a table."""
    if setting.kind == "adam":
        first = 0.9 * state["first"] + 0.1 * gradient
        second = 0.999 * state["second"] + 0.001 * jnp.square(gradient)
        found = value - rate * first / (jnp.sqrt(second) + 1e-8)
        return found, {"first": first, "second": second}
    if setting.kind == "momentum":
        velocity = setting.momentum * state["velocity"] + gradient
        return value - rate * velocity, {"velocity": velocity}
    return value - rate * gradient, {}


def corrected(setting: Optimizer, count: Any) -> Any:
    """The learning rate of a step. Fluid's sparse Adam is one step ahead of its dense one."""
    rate = jnp.float32(setting.rate)
    if setting.kind != "adam":
        return rate
    return rate * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)


PARTS = {"adam": ("first", "second"), "momentum": ("velocity",), "sgd": ()}


def update_rows(
    setting: Optimizer, rate: Any, table: Any, ids: Any, gradient: Any, state: State
) -> Any:
    """Lazily: only rows in `ids` change; gradients of one that comes more than once add up."""
    ids, gradient = ids.reshape(-1), gradient.reshape(-1, table.shape[1])
    unique, places = jnp.unique(ids, size=len(ids), fill_value=len(table), return_inverse=True)
    summed = jax.ops.segment_sum(gradient, places.reshape(-1), len(ids))
    rows = {name: part.at[unique].get(mode="fill", fill_value=0) for name, part in state.items()}
    value = table.at[unique].get(mode="fill", fill_value=0)
    value, rows = update(setting, rate, value, summed, rows)
    found = {name: state[name].at[unique].set(part, mode="drop") for name, part in rows.items()}
    return table.at[unique].set(value, mode="drop"), found


def train(
    name: str, setting: Optimizer, weights: State, states: State, count: Any, feed: State
) -> Any:
    tables = TABLES.get(name, {})
    rows = {table: weights[table][feed[ids]] for table, ids in tables.items()}
    dense = {k: value for k, value in weights.items() if k not in tables}
    network = partial(NETWORKS[name], feed=feed)
    loss, (gradients, by_row) = jax.value_and_grad(network, (0, 1))(dense, rows)
    rate, row_rate = corrected(setting, count), corrected(setting, count + 1)
    new, kept = dict(weights), dict(states)
    for key, gradient in clipped(gradients, setting.clip).items():
        if not key.endswith(FIXED):
            new[key], kept[key] = update(setting, rate, weights[key], gradient, states[key])
    for key, gradient in by_row.items():
        ids = feed[tables[key]]
        new[key], kept[key] = update_rows(
            setting, row_rate, weights[key], ids, gradient, states[key]
        )
    return new, kept, count + 1, loss


class JaxSide:
    def __init__(self, work: Workload, weights: Weights) -> None:
        named = split_lstms(weights, LSTMS.get(work.name, ()))
        parts = PARTS[work.optimizer.kind]
        self.state: Any = {name: jnp.asarray(value) for name, value in named.items()}
        self.kept: Any = {
            name: {part: jnp.zeros_like(value) for part in parts}
            for name, value in self.state.items()
        }
        self.count = jnp.float32(1)
        self.train = jax.jit(partial(train, work.name, work.optimizer), donate_argnums=(0, 1, 2))

    def weights(self) -> Weights:
        raise NotImplementedError("refluid's weights are the ones that all sides start from")

    def prepare(self, feed: Feed) -> Any:
        return {
            name: value.astype(np.int32) if value.dtype == np.int64 else value
            for name, value in padded(feed).items()
        }

    def step(self, prepared: Any) -> float:
        found = self.train(self.state, self.kept, self.count, prepared)
        self.state, self.kept, self.count, loss = found
        return float(loss)

    def is_settled(self) -> bool:
        return True

    def needs(self, prepared: Any) -> Needs:
        return Needs()

    def shares(self, prepared: Any) -> dict[str, float]:
        return {}

    def peak(self) -> int | None:
        return None

    def versions(self) -> dict[str, str]:
        return {"jax": jax.__version__}


def make(work: Workload, options: Options, weights: Weights | None) -> JaxSide:
    assert weights is not None
    if options.threads:  # XLA has a thread for each processor that it may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    return JaxSide(work, weights)

"""Fluid's LSTM weights as other frameworks keep them: gates i, f, g, o, and two matrices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


def cell_parts(weight: Array, bias: Array) -> dict[str, Array]:
    """Of `LSTMCell` (gates i, j, f, o; 1 is added to f): ih, hh as (4 width, ...), and bias."""
    i, j, f, o = np.split(weight, 4, axis=1)
    whole = np.concatenate([i, f, j, o], 1).T
    width = weight.shape[1] // 4
    inputs = weight.shape[0] - width
    i, j, f, o = np.split(bias.reshape(-1), 4)
    return {
        "ih": np.ascontiguousarray(whole[:, :inputs]),
        "hh": np.ascontiguousarray(whole[:, inputs:]),
        "bias": np.concatenate([i, f + 1, j, o]),
    }


def lod_parts(inputs: Array, weight: Array, bias: Array) -> dict[str, Array]:
    """Of `dynamic_lstm` after its fc (gates c, i, f, o)."""

    def ordered(value: Array) -> Array:
        c, i, f, o = np.split(value.reshape(-1, value.shape[-1]), 4, axis=1)
        return np.ascontiguousarray(np.concatenate([i, f, c, o], 1).T)

    return {"ih": ordered(inputs), "hh": ordered(weight), "bias": ordered(bias).reshape(-1)}


def split_lstms(weights: Mapping[str, Array], names: tuple[str, ...]) -> dict[str, Array]:
    """All weights; those of the LSTMs `names` as x.weight.ih, x.weight.hh, x.bias.ih, x.bias.hh."""
    found = dict(weights)
    for name in names:
        own = [found.pop(f"{name}.{part}") for part in ("weight", "bias")]
        inputs = found.pop(f"{name}.input.weight", None)
        parts = cell_parts(*own) if inputs is None else lod_parts(inputs, *own)
        found |= {f"{name}.weight.ih": parts["ih"], f"{name}.weight.hh": parts["hh"]}
        found |= {f"{name}.bias.ih": parts["bias"], f"{name}.bias.hh": np.zeros_like(parts["bias"])}
    return found

"""One operator run as a program, and its gradient compared with finite differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensor
from refluid.ops.registry import find

Array = npt.NDArray[Any]
Feeds = Mapping[str, Any]


def _declared(block: Any, name: str, value: Any) -> Any:
    array, lengths = value if isinstance(value, tuple) else (value, [])
    var = block.create_var(
        name=name, shape=list(array.shape), dtype=str(array.dtype), lod_level=len(lengths)
    )
    var.is_data = True
    var.stop_gradient = False
    return var


def _fed(value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    tensor = LoDTensor()
    tensor.set(value[0], fluid.CPUPlace())
    tensor.set_recursive_sequence_lengths(value[1])
    return tensor


def run_op(
    op_type: str,
    inputs: Feeds,
    attrs: Mapping[str, Any] | None = None,
    *,
    counts: Mapping[str, int] | None = None,
    gradients: Sequence[str] = (),
    of: str = "",
) -> dict[str, Any]:
    """Runs an operator; slot -> array, the gradients of sum(sin(`of`)) as `SLOT@GRAD`.

    inputs: per slot an array, an array with sequence lengths as a pair, or a list of them.
    counts: how many variables an output slot has, 1 unless said. Values with LoD come back
    as LoDTensors under `SLOT.lod`.
    """
    main = fluid.Program()
    wanted: dict[str, Any] = {}
    with fluid.program_guard(main, fluid.Program()):
        given, made = _append(op_type, inputs, attrs or {}, counts or {})
        wanted |= {slot: variables[0] for slot, variables in made.items() if variables}
        for slot, variables in made.items():
            wanted |= {f"{slot}.{place}": one for place, one in enumerate(variables)}
        if gradients:
            target = made[of or next(iter(made))][0]
            loss = fluid.layers.reduce_sum(fluid.layers.sin(target))
            found = fluid.gradients(loss, [given[slot][0] for slot in gradients])
            wanted |= {f"{slot}@GRAD": one for slot, one in zip(gradients, found, strict=True)}
    feed = {
        f"{slot}.{place}": _fed(one)
        for slot, values in inputs.items()
        for place, one in enumerate(_several(values))
    }
    executor, fetches = fluid.Executor(fluid.CPUPlace()), list(wanted.values())
    with fluid.scope_guard(fluid.Scope()):
        values = executor.run(main, feed=feed, fetch_list=fetches, return_numpy=False)
    results: dict[str, Any] = {}
    for name, value in zip(wanted, values, strict=True):
        results[name] = np.array(value)
        results[f"{name}.lod"] = value.recursive_sequence_lengths()
    return results


def refusal(op_type: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any], says: str) -> str:
    """What the EnforceNotMet says with which `run_op` refuses these; `says` has to be in it."""
    with pytest.raises(EnforceNotMet, match=says) as caught:
        run_op(op_type, inputs, attrs)
    return str(caught.value)


def _several(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values]


def _append(
    op_type: str, inputs: Feeds, attrs: Mapping[str, Any], counts: Mapping[str, int]
) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """The operator in the default program, its variables by slot: inputs, outputs."""
    definition = find(op_type)
    assert definition is not None
    block = fluid.default_main_program().global_block()
    given = {
        slot: [_declared(block, f"{slot}.{at}", one) for at, one in enumerate(_several(values))]
        for slot, values in inputs.items()
    }
    made = {
        slot.name: [
            block.create_var(name=f"{slot.name}.out.{place}")
            for place in range(counts.get(slot.name, 1))
        ]
        for slot in definition.outputs
        if slot.name != "ReserveSpace"  # a memory of CUDA's that has no value
    }
    block.append_op(type=op_type, inputs=given, outputs=made, attrs=dict(attrs))
    return given, made


def check_gradient(
    op_type: str,
    inputs: Feeds,
    attrs: Mapping[str, Any] | None = None,
    *,
    wrt: Sequence[str],
    of: str = "",
    step: float = 1e-5,
    bound: float = 1e-6,
) -> None:
    """Compares gradients with differences of sum(sin(output)) in a random direction.

    Inputs of `wrt` are float64.
    """
    definition = find(op_type)
    assert definition is not None
    result = of or definition.outputs[0].name
    found = run_op(op_type, inputs, attrs, gradients=wrt, of=of)
    random = np.random.RandomState(3)
    for slot in wrt:
        given = inputs[slot]
        array, lengths = given if isinstance(given, tuple) else (given, None)
        direction = random.standard_normal(array.shape)
        values = []
        for sign in (1.0, -1.0):
            moved = array + sign * step * direction
            changed = {**inputs, slot: moved if lengths is None else (moved, lengths)}
            values.append(np.sin(run_op(op_type, changed, attrs)[result]).sum())
        expected = (values[0] - values[1]) / (2 * step)
        slope = (found[f"{slot}@GRAD"] * direction).sum()
        np.testing.assert_allclose(slope, expected, rtol=bound, atol=bound, err_msg=slot)

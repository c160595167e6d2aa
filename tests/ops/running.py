"""One operator run as a program, and its gradient compared with finite differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from refluid import fluid
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
    outputs: Sequence[str] = (),
    counts: Mapping[str, int] | None = None,
    gradients: Sequence[str] = (),
    of: str = "",
) -> dict[str, Any]:
    """Runs an operator; slot -> array, the gradients of sum(sin(`of`)) as `SLOT@GRAD`.

    inputs: per slot an array, an array with sequence lengths as a pair, or a list of them.
    counts: how many variables an output slot has, 1 unless said. Values with LoD come back
    as LoDTensors under `SLOT.lod`.
    """
    definition = find(op_type)
    assert definition is not None
    slots = list(outputs) or [slot.name for slot in definition.outputs]
    main = fluid.Program()
    feed: dict[str, Any] = {}
    with fluid.program_guard(main, fluid.Program()):
        block = main.global_block()
        given: dict[str, list[Any]] = {}
        for slot, values in inputs.items():
            several = values if isinstance(values, list) else [values]
            given[slot] = [
                _declared(block, f"{slot}.{place}", one) for place, one in enumerate(several)
            ]
            feed |= {f"{slot}.{place}": _fed(one) for place, one in enumerate(several)}
        made = {
            slot: [
                block.create_var(name=f"{slot}.out.{place}")
                for place in range((counts or {}).get(slot, 1))
            ]
            for slot in slots
        }
        block.append_op(type=op_type, inputs=given, outputs=made, attrs=dict(attrs or {}))
        wanted = {slot: variables[0] for slot, variables in made.items()}
        for slot, variables in made.items():
            wanted |= {f"{slot}.{place}": one for place, one in enumerate(variables)}
        if gradients:
            target = made[of or slots[0]][0]
            loss = fluid.layers.reduce_sum(fluid.layers.sin(target))
            found = fluid.gradients(loss, [given[slot][0] for slot in gradients])
            wanted |= {f"{slot}@GRAD": one for slot, one in zip(gradients, found, strict=True)}
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        values = executor.run(main, feed=feed, fetch_list=list(wanted.values()), return_numpy=False)
    results: dict[str, Any] = {}
    for name, value in zip(wanted, values, strict=True):
        results[name] = np.array(value)
        results[f"{name}.lod"] = value.recursive_sequence_lengths()
    return results


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

"""`paddle.jit.save` and `load`: a network's program with its parameters in files."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from refluid import eager
from refluid.build import Blocks, using
from refluid.core.places import CPUPlace
from refluid.eager import ParamBase
from refluid.fluid.dygraph.layers import Layer as FluidLayer
from refluid.fluid.dygraph.translation.arguments import CallArguments, replaced
from refluid.fluid.dygraph.translation.programs import TracedFunction, made, runner
from refluid.fluid.dygraph.translation.saved import RunsSaved, SavedProgram, loaded
from refluid.fluid.executor import Executor, scope_guard
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.paddle.jit.static_functions import StaticFunction
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.static.models import load_inference_model, save_inference_model
from refluid.paddle.static.specs import InputSpec


def save(layer: Any, path: str, input_spec: Any = None, **configs: Any) -> None:
    """Writes `path`.pdmodel and .pdiparams: what the layer's `forward`, or a function, computes.

    input_spec: InputSpec, variables or arrays that say what it is given, and other values as they
    are; that of `to_static`, or of its last call, unless given. output_spec=[..]: variables among
    the results, or their names, to keep. Python decides by `layer.training` as it is; operators are
    saved as they evaluate. ValueError where nothing says what it is given.
    """
    if not isinstance(layer, FluidLayer | StaticFunction) and not callable(layer):
        raise TypeError(
            "The input of paddle.jit.save should be 'Layer' or 'Function', but received input "
            f"type is {type(layer)}."
        )
    given = layer.forward if isinstance(layer, FluidLayer) else layer
    function = given._function if isinstance(given, StaticFunction) else given
    spec = input_spec or getattr(given, "_input_spec", None) or _of_last_call(given)
    if spec is None:
        raise ValueError(
            "No valid transformed program for function: "
            f"{getattr(function, '__name__', function)}. "
            "Please specify `input_spec` in `@paddle.jit.to_static` or in `paddle.jit.save`, or "
            "call the decorated function once before"
        )
    program = _traced(function, list(spec) if isinstance(spec, list | tuple) else [spec])
    _write(program, path, configs.get("output_spec"))


def _of_last_call(given: Any) -> list[Any] | None:
    known = given.concrete_program if isinstance(given, StaticFunction) else None
    if known is None or known.made is None:
        return None
    inputs = known.inputs[: known.made.count]
    return [InputSpec(one.shape, one.dtype, one.name) for one in inputs]


def _traced(function: Callable[..., Any], spec: Sequence[Any]) -> TracedFunction:
    parameters = list(inspect.signature(function).parameters)
    block, feeds = Program().global_block(), list[str]()

    def declared(one: Any, usual: str) -> Any:
        is_spec = isinstance(one, InputSpec)
        feeds.append((one.name if is_spec else None) or usual)
        shape, dtype = list(one.shape), one.dtype
        return block.create_var(name=feeds[-1], shape=shape, dtype=dtype, stop_gradient=True)

    args = []
    for number, one in enumerate(spec):
        usual = parameters[number] if number < len(parameters) else f"input_{number}"
        count = iter(range(1000))

        def change(value: Any, usual: str = usual, count: Any = count) -> Any:
            place = next(count)
            return declared(value, f"{usual}_{place}" if place else usual)

        args.append(replaced(one, _is_fed, change))
    return made(function, CallArguments(args, {}), feeds)


def _is_fed(value: Any) -> bool:
    return isinstance(value, InputSpec | Variable | np.ndarray)


def _write(program: TracedFunction, path: str, kept: Sequence[Any] | None) -> None:
    now = eager.current()
    place: Any = CPUPlace() if now is None else now.place
    ready = runner(program, place)
    for name, var in ready.held.items():
        ready.scope.var(name).value = var.tensor.detach()
    results = program.returned
    if kept is not None:
        names = {one if isinstance(one, str) else one.name for one in kept}
        results = [one for one in results if one.name in names] or results
    with using(Blocks()), scope_guard(ready.scope):
        executor = Executor(place)
        save_inference_model(path, program.inputs, results, executor, program=program.main)


class TranslatedLayer(RunsSaved, Layer):
    """What `paddle.jit.save` wrote, as a layer; `load` makes it. It evaluates until `train()`."""

    def __init__(self, programs: SavedProgram, persistable_vars: Any) -> None:
        super().__init__()
        self._saved = programs
        for number, (_, one) in enumerate(sorted(programs.held.items())):
            if isinstance(one, ParamBase):
                self.add_parameter(f"param_{number}", one)
            else:
                self.register_buffer(f"param_{number}", one)
        self.eval()


def load(path: str, **configs: Any) -> TranslatedLayer:
    """What `save` wrote, or `paddle.static.save_inference_model`, as a layer.

    model_filename=.., params_filename=..: of a folder. ValueError where there are no such files.
    """
    if configs.keys() - {"model_filename", "params_filename"}:
        warnings.warn(f"paddle.jit.load doesn't know {sorted(configs)}", stacklevel=2)
    return TranslatedLayer(loaded(lambda exe: load_inference_model(path, exe, **configs)), None)

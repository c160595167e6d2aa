"""`create_paddle_predictor`: runs a saved model, in a scope and by plans of its own."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NoReturn, Self

import torch

from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensor
from refluid.core.places import require_available
from refluid.core.scope import Scope
from refluid.core.threads import use_threads
from refluid.core.writing import write_files
from refluid.engine.group import Group
from refluid.engine.notices import drawing
from refluid.engine.prepare import Wanted, prepared
from refluid.engine.strategy import Strategy
from refluid.fluid.inference.config import AnalysisConfig
from refluid.fluid.inference.folding import fold_batch_norms
from refluid.fluid.inference.models import Model, load
from refluid.fluid.inference.native import NativeConfig
from refluid.fluid.inference.passes import FOLD, strategy_of
from refluid.fluid.inference.quantizing import no_quantizer
from refluid.fluid.inference.tensors import PaddleTensor
from refluid.fluid.inference.zero_copy import ZeroCopyTensor
from refluid.fluid.profiler import start_profiler, stop_profiler
from refluid.fluid.saving.persistence import is_persistable, write_cells
from refluid.ir.program import Program
from refluid.runtime.allocator import end_step
from refluid.runtime.allocator import prepare as prepare_memory
from refluid.runtime.plan import Fetched

_log = logging.getLogger("refluid")


class PaddlePredictor:
    """What predictors have in common; `create_paddle_predictor` makes one.

    A predictor is for one thread at a time. `clone` gives another that shares the parameters.
    """

    Config: type = object
    _handles: type[ZeroCopyTensor] = ZeroCopyTensor

    def __init__(self, *_args: Any, **_options: Any) -> None:
        raise TypeError(
            f"{type(self).__name__}: No constructor defined! use create_paddle_predictor"
        )

    def _start(self, model: Model, config: AnalysisConfig, strategy: Strategy) -> None:
        self._model, self._config, self._strategy = model, config, strategy
        # Its own scope in the one of the parameters: what the program writes is not the clones'.
        self._scope = Scope(model.scope)
        place = config._place()
        self._device = place.device
        self._group = Group([place])
        prepare_memory(self._device)
        self._seen = drawing(strategy) if strategy.debug_graphviz_path else None
        self._inputs = {
            name: self._handles(name, self._device, is_input=True) for name in model.inputs
        }
        self._outputs = {
            name: self._handles(name, self._device, is_input=False) for name in model.outputs
        }

    # -- running --------------------------------------------------------------

    def run(self, inputs: Sequence[PaddleTensor]) -> list[PaddleTensor]:
        """Computes the outputs, in their order.

        inputs: in the order of `get_input_names`, or by their names in any order where the
        configuration says so (`switch_specify_input_names`). The tensors of `get_output_tensor`
        hold the outputs too.
        Sizes may be others than the model declares: only executors check them, as in Fluid.
        Raises EnforceNotMet for missing or unknown inputs and for what goes wrong inside,
        ValueError for a wrong number of dimensions or element type.
        """
        found = self._run(self._by_name(inputs))
        return [
            PaddleTensor._result(_array(one.value), name, one.lod)
            for name, one in zip(self._model.outputs, found, strict=True)
        ]

    def zero_copy_run(self) -> bool:
        """Computes the outputs of what the input tensors hold; True."""
        feed = {
            name: LoDTensor(one._present(), one._lod) if one._lod else one._present()
            for name, one in self._inputs.items()
        }
        self._run(feed)
        return True

    def _by_name(self, inputs: Sequence[PaddleTensor]) -> dict[str, Any]:
        names = self._model.inputs
        if len(inputs) != len(names):
            raise EnforceNotMet(
                f"the model has {len(names)} inputs ({', '.join(names)}), not {len(inputs)}"
            )
        if not self._config.specify_input_name():
            return {name: _fed(one) for name, one in zip(names, inputs, strict=True)}
        found = {one.name: _fed(one) for one in inputs}
        if set(found) != set(names):
            raise EnforceNotMet(
                f"the tensors are named {', '.join(map(repr, found))}, the model's inputs "
                f"{', '.join(map(repr, names))}; name them so, or switch_specify_input_names(False)"
            )
        return {name: found[name] for name in names}

    def _run(self, feed: Mapping[str, Any]) -> list[Fetched]:
        model = self._model
        with self._threads():
            given = model.program, model.inputs, model.outputs, self._strategy, self._group
            ready = prepared(Wanted(*given), self._seen)
            slots = ready.slots[0]
            converted = [slot.convert(feed[slot.name], sized=False) for slot in slots]
            lods = [lod for _, lod in converted]
            fed = frozenset(slot.name for slot, lod in zip(slots, lods, strict=True) if lod)
            tensors = [tensor for tensor, _ in converted]
            results: list[Fetched] = ready.step(fed).run(self._scope, tensors, lods)
        end_step(self._device)
        for handle, one in zip(self._outputs.values(), results, strict=True):
            handle._value, handle._lod = one.value, one.lod
        return results

    def _threads(self) -> AbstractContextManager[None]:
        threads = self._config._threads
        return nullcontext() if threads is None else use_threads(threads)

    # -- its ends -------------------------------------------------------------

    def get_input_names(self) -> list[str]:
        """What the model is fed, in order."""
        return list(self._model.inputs)

    def get_output_names(self) -> list[str]:
        """What the model gives, in order."""
        return list(self._model.outputs)

    def get_input_tensor(self, name: str) -> ZeroCopyTensor:
        """The input of that name; EnforceNotMet where there is none."""
        return _handle(self._inputs, name, "input")

    def get_output_tensor(self, name: str) -> ZeroCopyTensor:
        """The output of that name; EnforceNotMet where there is none."""
        return _handle(self._outputs, name, "output")

    def get_serialized_program(self) -> bytes:
        """The program as it is run, as ProgramDesc bytes."""
        return self._model.program.serialize_to_string()

    def clone(self) -> Self:
        """Another predictor on the same parameters, to be used in another thread."""
        other = type(self).__new__(type(self))
        other._start(self._model, self._config, self._strategy)
        return other

    def scope(self) -> Scope:
        """The scope that it runs in; parameters are in its parent."""
        return self._scope


class AnalysisPredictor(PaddlePredictor):
    """Runs a model after the passes of its `AnalysisConfig`."""

    def __init__(self, config: AnalysisConfig) -> None:
        config = AnalysisConfig(config)
        place = config._place()
        require_available(place)
        model = load(config, place.device)
        passes = config._applied()
        folded = fold_batch_norms(model.program, model.scope) if FOLD in passes else 0
        if folded and not config.glog_info_disabled():
            _log.info("%s: %d batch normalisations are part of convolutions now", FOLD, folded)
        onednn = config._onednn_types if config.mkldnn_enabled() else frozenset[str]()
        graphs = "inference" if config._draws() else ""
        self._start(model, config, strategy_of(passes, graphs, onednn))
        if config._profile:
            start_profiler("All" if config.use_gpu() else "CPU")
            weakref.finalize(self, stop_profiler, "total")

    def program(self) -> Program:
        """The program as it is run."""
        return self._model.program

    def get_input_tensor_shape(self) -> dict[str, list[int]]:
        """The declared shape of each input; -1 is any size."""
        block = self._model.program.global_block()
        return {name: list(block.var(name).shape) for name in self._model.inputs}

    def SaveOptimModel(self, dir: str) -> None:
        """Writes the program as it is run, `model`, and its parameters, `params`, to a folder."""
        program = self._model.program
        names = sorted(var.name for var in program.list_vars() if is_persistable(var))
        cells = [cell for name in names if (cell := self._scope.find_var(name)) is not None]
        write_files(
            [
                (Path(dir) / "model", lambda file: file.write(program.serialize_to_string())),
                (Path(dir) / "params", lambda file: write_cells(cells, file)),
            ]
        )

    def _is_a_step_of_making(self, *_given: Any) -> NoReturn:
        """Raises EnforceNotMet: `create_paddle_predictor` has done all steps of making one."""
        raise EnforceNotMet(
            "this is a step of making a predictor in Fluid's own code; create_paddle_predictor has "
            "done them all, so leave the call out"
        )

    init = analysis_argument = create_feed_fetch_var = _is_a_step_of_making
    prepare_argument = prepare_feed_fetch = optimize_inference_program = _is_a_step_of_making

    def mkldnn_quantize(self) -> NoReturn:
        """Raises EnforceNotMet: there is no int8 inference."""
        raise no_quantizer()


class NativePaddlePredictor(PaddlePredictor):
    """Runs a model as it was saved."""

    def __init__(self, config: NativeConfig) -> None:
        settings = _settings(config)
        place = settings._place()
        require_available(place)
        self._start(load(settings, place.device), settings, strategy_of(()))

    init = AnalysisPredictor.init


AnalysisPredictor.Config = AnalysisConfig
NativePaddlePredictor.Config = NativeConfig


def create_paddle_predictor(config: AnalysisConfig | NativeConfig) -> PaddlePredictor:
    """A predictor for a saved model.

    Raises EnforceNotMet for missing or damaged files and for a GPU that isn't there, TypeError for
    what is no configuration.
    """
    if isinstance(config, AnalysisConfig):
        return AnalysisPredictor(config)
    if isinstance(config, NativeConfig):
        return NativePaddlePredictor(config)
    raise TypeError(
        f"create_paddle_predictor takes an AnalysisConfig or NativeConfig, not {config!r}"
    )


def _settings(native: NativeConfig) -> AnalysisConfig:
    config = AnalysisConfig(native.model_dir) if native.model_dir else AnalysisConfig()
    if native.prog_file:
        config.set_model(native.prog_file, native.param_file)
    if native.use_gpu:
        config.enable_use_gpu(100, native.device)
    config.switch_ir_optim(False)
    config.switch_specify_input_names(native.specify_input_name)
    config._threads = native._threads
    return config


def _handle(handles: Mapping[str, ZeroCopyTensor], name: str, kind: str) -> ZeroCopyTensor:
    if name not in handles:
        raise EnforceNotMet(f"the model has no {kind} {name!r}; there are {', '.join(handles)}")
    return handles[name]


def _fed(tensor: PaddleTensor) -> Any:
    array = tensor.as_ndarray()
    return LoDTensor(torch.from_numpy(array), tensor.lod) if tensor.lod else array


def _array(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        raise EnforceNotMet(f"an output is a {type(value).__name__}, which predictors can't give")
    return (value.float() if value.dtype == torch.bfloat16 else value).cpu().numpy()

"""`AnalysisConfig`: where a saved model is and how it is to be run.

Each option works, or is said once in the log to have no meaning here, or is an error that says
what to do instead (docs/inference.md has the table).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

import torch

from refluid.core.bounds import whole_number
from refluid.core.notices import tell_once
from refluid.core.places import CPUPlace, CUDAPlace
from refluid.fluid.inference.native import NativeConfig
from refluid.fluid.inference.passes import (
    CpuPassStrategy,
    GpuPassStrategy,
    PassStrategy,
)
from refluid.fluid.inference.quantizing import MkldnnQuantizerConfig, no_quantizer


class _Precision(IntEnum):
    """In which type TensorRT or Lite compute."""

    Float32 = 0
    Int8 = 1
    Half = 2

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    __str__ = __repr__


class AnalysisConfig:
    """A saved model and how it is run.

    `AnalysisConfig("folder")`: `__model__` and a file per parameter; `AnalysisConfig("program",
    "parameters")`: two files; `AnalysisConfig(config)`: as another one.
    """

    Precision = _Precision
    Float32, Int8, Half = _Precision

    def __init__(self, model: str | AnalysisConfig | None = None, params: str = "") -> None:
        if isinstance(model, AnalysisConfig):
            self.__dict__.update(copy.deepcopy(vars(model)))
            return
        self._model_dir = self._prog_file = self._params_file = ""
        self._buffers: tuple[bytes, bytes] | None = None
        self._gpu: int | None = None
        self._pool = 100
        self._threads: int | None = None
        self._passes: PassStrategy | None = None
        self._onednn, self._onednn_types = False, frozenset[str]()
        self._ir_optim, self._graphs = True, False
        self._feed_fetch_ops, self._by_name = True, False
        self._profile, self._quiet = False, False
        self._tensorrt = self._lite = False
        if model is not None:
            self.set_model(model, params)

    def set_model(self, model: str, params: str = "") -> None:
        """A folder; or the files of the program and of all parameters."""
        self._buffers = None
        if params:
            self._model_dir, self._prog_file, self._params_file = "", str(model), str(params)
        else:
            self._model_dir, self._prog_file, self._params_file = str(model), "", ""

    def set_prog_file(self, path: str) -> None:
        """The file of the program."""
        self._prog_file = str(path)

    def set_params_file(self, path: str) -> None:
        """The file of all parameters."""
        self._params_file = str(path)

    def set_model_buffer(
        self, prog_buffer: bytes, prog_size: int, params_buffer: bytes, params_size: int
    ) -> None:
        """The contents of both files, and how many bytes of them count."""
        self._buffers = bytes(prog_buffer)[:prog_size], bytes(params_buffer)[:params_size]
        self._model_dir = ""

    def model_dir(self) -> str:
        """The folder, empty where there are two files."""
        return self._model_dir

    def prog_file(self) -> str:
        """The file of the program."""
        return self._prog_file

    def params_file(self) -> str:
        """The file of all parameters."""
        return self._params_file

    def model_from_memory(self) -> bool:
        """Whether `set_model_buffer` was used."""
        return self._buffers is not None

    def enable_use_gpu(self, memory_pool_init_size_mb: int, device_id: int = 0) -> None:
        """Runs on that GPU; without CUDA making the predictor is an error.

        The pool's size is kept for `fraction_of_gpu_memory_for_pool`; torch takes what it needs.
        """
        self._pool = whole_number("memory_pool_init_size_mb", memory_pool_init_size_mb, least=0)
        self._gpu = CUDAPlace(device_id).id

    def disable_gpu(self) -> None:
        """Runs on the CPU."""
        self._gpu = None

    def use_gpu(self) -> bool:
        """Whether it runs on a GPU."""
        return self._gpu is not None

    def gpu_device_id(self) -> int:
        """The GPU's number, 0 on the CPU."""
        return self._gpu or 0

    def memory_pool_init_size_mb(self) -> int:
        """What `enable_use_gpu` was given, in MB."""
        return self._pool

    def fraction_of_gpu_memory_for_pool(self) -> float:
        """That part of the GPU's memory; 0 where no GPU is used."""
        if self._gpu is None or not torch.cuda.is_available():
            return 0.0
        total = torch.cuda.get_device_properties(self._gpu).total_memory
        return self._pool * (1 << 20) / float(total)

    def set_cpu_math_library_num_threads(self, threads: int) -> None:
        """Each operator uses so many threads."""
        self._threads = whole_number("cpu_math_library_num_threads", threads, least=1)

    def cpu_math_library_num_threads(self) -> int:
        """Threads of each operator."""
        return torch.get_num_threads() if self._threads is None else self._threads

    def enable_mkldnn(self) -> None:
        """torch uses oneDNN by itself; `set_mkldnn_op` says for which operators only."""
        self._onednn = True

    def mkldnn_enabled(self) -> bool:
        """Whether `enable_mkldnn` was called."""
        return self._onednn

    def set_mkldnn_op(self, types: Iterable[str]) -> None:
        """oneDNN's kernels for these operator types only, once `enable_mkldnn` is called."""
        self._onednn_types = frozenset(types)

    def set_mkldnn_cache_capacity(self, capacity: int = 0) -> None:
        """Said once to have no effect."""
        tell_once("set_mkldnn_cache_capacity has no effect here: torch keeps oneDNN's primitives")

    def switch_ir_optim(self, x: int = True) -> None:
        """Off: the model runs as `Executor.run` runs it."""
        self._ir_optim = bool(x)

    def ir_optim(self) -> bool:
        """Whether the passes are applied."""
        return self._ir_optim

    def switch_ir_debug(self, x: int = True) -> None:
        """Draws the program before and after the passes, files `inference_<stage>_graph`."""
        self._graphs = bool(x)

    def pass_builder(self) -> PassStrategy:
        """The passes of the place that is set now, to be changed."""
        wanted = CpuPassStrategy if self._gpu is None else GpuPassStrategy
        if not isinstance(self._passes, wanted):
            former = self._passes
            self._passes = wanted() if former is None else wanted(former.all_passes())
        return self._passes

    def delete_pass(self, name: str) -> None:
        """Leaves out a pass; one that isn't here is said once in the log."""
        self.pass_builder().delete_pass(name)

    def enable_memory_optim(self) -> None:
        """Always so."""
        tell_once("enable_memory_optim: values are freed after their last use in any case")

    def enable_tensorrt_engine(
        self,
        workspace_size: int = 1 << 20,
        max_batch_size: int = 1,
        min_subgraph_size: int = 3,
        precision_mode: _Precision = _Precision.Float32,
        use_static: bool = False,
        use_calib_mode: bool = True,
    ) -> None:
        """Said once to have no effect: torch's kernels compute all, in float32."""
        self._tensorrt = True
        tell_once(_no_engine("enable_tensorrt_engine", "TensorRT", precision_mode))

    def tensorrt_engine_enabled(self) -> bool:
        """Whether `enable_tensorrt_engine` was called."""
        return self._tensorrt

    def set_trt_dynamic_shape_info(
        self,
        min_input_shape: Mapping[str, Sequence[int]] = {},
        max_input_shape: Mapping[str, Sequence[int]] = {},
        optim_input_shape: Mapping[str, Sequence[int]] = {},
        disable_trt_plugin_fp16: bool = False,
    ) -> None:
        """Said once to have no effect: any shape that the program declares can be given."""
        tell_once("set_trt_dynamic_shape_info has no effect here: there is no TensorRT")

    def enable_lite_engine(
        self,
        zero_copy: bool = False,
        precision_mode: _Precision = _Precision.Float32,
        passes_filter: Sequence[str] = (),
        ops_filter: Sequence[str] = (),
    ) -> None:
        """Said once to have no effect, as `enable_tensorrt_engine`."""
        self._lite = True
        tell_once(_no_engine("enable_lite_engine", "Paddle Lite", precision_mode))

    def lite_engine_enabled(self) -> bool:
        """Whether `enable_lite_engine` was called."""
        return self._lite

    def enable_quantizer(self) -> None:
        """Raises EnforceNotMet: there is no int8 inference."""
        raise no_quantizer()

    def quantizer_config(self) -> MkldnnQuantizerConfig:
        """What `enable_quantizer` would take."""
        return MkldnnQuantizerConfig()

    def set_optim_cache_dir(self, path: str) -> None:
        """Said once to have no effect."""
        tell_once("set_optim_cache_dir has no effect here: preparing a model leaves no files")

    def switch_use_feed_fetch_ops(self, x: int = True) -> None:
        """Both ways of calling work with either; see `use_feed_fetch_ops_enabled`."""
        self._feed_fetch_ops = bool(x)

    def use_feed_fetch_ops_enabled(self) -> bool:
        """What `switch_use_feed_fetch_ops` was given."""
        return self._feed_fetch_ops

    def switch_specify_input_names(self, x: bool = True) -> None:
        """`run` finds its inputs by the names of the tensors, not by their order."""
        self._by_name = bool(x)

    def specify_input_name(self) -> bool:
        """Whether inputs are found by name."""
        return self._by_name

    def enable_profile(self) -> None:
        """Notes what operators take; the report is printed when the predictor is gone."""
        self._profile = True

    def disable_glog_info(self) -> None:
        """The predictor doesn't say in the log what was done to the model."""
        self._quiet = True

    def glog_info_disabled(self) -> bool:
        """Whether `disable_glog_info` was called."""
        return self._quiet

    def to_native_config(self) -> NativeConfig:
        """The same model and place, without passes."""
        native = NativeConfig()
        native.model_dir, native.prog_file = self._model_dir, self._prog_file
        native.param_file, native.use_gpu = self._params_file, self.use_gpu()
        native.device, native.specify_input_name = self.gpu_device_id(), self._by_name
        native.fraction_of_gpu_memory = self.fraction_of_gpu_memory_for_pool()
        native._threads = self._threads
        return native

    # -- for predictors -------------------------------------------------------

    def _place(self) -> CPUPlace | CUDAPlace:
        return CPUPlace() if self._gpu is None else CUDAPlace(self._gpu)

    def _applied(self) -> list[str]:
        """The passes that are to be done."""
        return self.pass_builder().all_passes() if self._ir_optim else []

    def _draws(self) -> bool:
        return self._graphs or (self._passes is not None and self._passes._debug)


def _no_engine(option: str, engine: str, precision: _Precision) -> str:
    kind = "" if precision == _Precision.Float32 else f", in float32 and not in {precision!r}"
    return f"{option} has no effect here: there is no {engine}; torch's kernels compute all{kind}"

"""`Config`: Fluid's `AnalysisConfig` with what Paddle 2 added."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NoReturn

from refluid.core.errors import EnforceNotMet
from refluid.core.notices import tell_once
from refluid.fluid.inference.config import AnalysisConfig
from refluid.fluid.inference.quantizing import no_quantizer


class PrecisionType(IntEnum):
    """In which type an engine is asked to compute."""

    Float32 = 0
    Int8 = 1
    Half = 2
    Bfloat16 = 3

    def __repr__(self) -> str:
        return f"PrecisionType.{self.name}"

    __str__ = __repr__


_ENGINE = "there is no TensorRT; torch's kernels compute all"
_MIXED = "models compute in the types that they were saved with"
_SHAPES = "any shape that the program declares can be given"
# What is said once to have no effect, and why.
_WITHOUT_EFFECT = {
    "enable_tensorrt_dla": _ENGINE,
    "enable_tensorrt_explicit_quantization": _ENGINE,
    "enable_tensorrt_inspector": _ENGINE,
    "enable_tensorrt_memory_optim": _ENGINE,
    "enable_tensorrt_varseqlen": _ENGINE,
    "enable_tuned_tensorrt_dynamic_shape": _ENGINE,
    "exp_disable_tensorrt_ops": _ENGINE,
    "mark_trt_engine_outputs": _ENGINE,
    "set_tensorrt_optimization_level": _ENGINE,
    "enable_dlnne": "there is no DLNNE; torch's kernels compute all",
    "enable_onnxruntime": "there is no ONNX Runtime; torch's kernels compute all",
    "enable_ort_optimization": "there is no ONNX Runtime; torch's kernels compute all",
    "collect_shape_range_info": _SHAPES,
    "enable_low_precision_io": _MIXED,
    "enable_mkldnn_bfloat16": _MIXED,
    "exp_disable_mixed_precision_ops": _MIXED,
    "exp_enable_mixed_precision_ops": _MIXED,
    "set_bfloat16_op": _MIXED,
    "exp_enable_use_cutlass": "torch's kernels compute all",
    "enable_new_executor": "there is one executor",
    "enable_save_optim_model": "the predictor's SaveOptimModel writes the program that is run",
}
# What a configuration is asked, and always answers.
_ANSWERS: dict[str, Any] = {
    "mkldnn_int8_enabled": False,
    "onnxruntime_enabled": False,
    "shape_range_info_collected": False,
    "shape_range_info_path": "",
    "tensorrt_dla_enabled": False,
    "tensorrt_dynamic_shape_enabled": False,
    "tensorrt_explicit_quantization_enabled": False,
    "tensorrt_inspector_enabled": False,
    "tensorrt_optimization_level": 0,
    "tensorrt_varseqlen_enabled": False,
    "trt_allow_build_at_runtime": False,
    "tuned_tensorrt_dynamic_shape": False,
    "use_opencl": False,
    "use_xpu": False,
    "xpu_device_id": 0,
}
# Devices that aren't there.
_ABSENT = {
    "enable_custom_device": "custom device",
    "enable_ipu": "IPU",
    "enable_opencl": "OpenCL device",
    "enable_xpu": "XPU",
    "load_ipu_config": "IPU",
    "set_ipu_config": "IPU",
    "set_ipu_custom_info": "IPU",
    "set_xpu_config": "XPU",
    "set_xpu_device_id": "XPU",
}


class Config(AnalysisConfig):
    """A saved model and how it is run: `Config("x.pdmodel", "x.pdiparams")`, or a folder.

    Options of engines that aren't here are said once to have no effect; those of devices that
    aren't are an EnforceNotMet.
    """

    Precision = PrecisionType  # type: ignore[assignment]
    Float32, Int8, Half, Bfloat16 = PrecisionType  # type: ignore[assignment]

    def enable_use_gpu(
        self,
        memory_pool_init_size_mb: int,
        device_id: int = 0,
        precision_mode: PrecisionType = PrecisionType.Float32,
    ) -> None:
        """Runs on that GPU, in the types that the model was saved with."""
        super().enable_use_gpu(memory_pool_init_size_mb, device_id)
        if precision_mode != PrecisionType.Float32:
            tell_once(f"Config.enable_use_gpu: precision_mode has no effect here: {_MIXED}")

    def enable_memory_optim(self, x: bool = True) -> None:
        """Always so."""
        super().enable_memory_optim()

    def disable_mkldnn(self) -> None:
        """Takes back `enable_mkldnn`."""
        self._onednn = False

    def disable_mkldnn_fc_passes(self) -> None:
        """Said once to have no effect."""
        tell_once("Config.disable_mkldnn_fc_passes has no effect here: there are no such passes")

    def disable_onnxruntime(self) -> None:
        """Always so."""

    def enable_mkldnn_int8(self, *_operators: Any) -> NoReturn:
        """Raises EnforceNotMet: there is no int8 inference."""
        raise no_quantizer()

    def tensorrt_precision_mode(self) -> PrecisionType:
        """The type that all is computed in where TensorRT was asked for."""
        return PrecisionType.Float32

    def summary(self) -> str:
        """The configuration, an option in each line."""
        shown = {
            "model_dir": self.model_dir(),
            "model_file": self.prog_file(),
            "params_file": self.params_file(),
            "device": f"gpu:{self.gpu_device_id()}" if self.use_gpu() else "cpu",
            "cpu_math_thread": self.cpu_math_library_num_threads(),
            "ir_optim": self.ir_optim(),
            "enable_mkldnn": self.mkldnn_enabled(),
            "enable_profile": self._profile,
            "disable_log": self.glog_info_disabled(),
        }
        width = max(map(len, shown))
        return "".join(f"{name:<{width}}  {value}\n" for name, value in shown.items())


def _told(name: str, reason: str) -> Callable[..., None]:
    def option(self: Config, *_args: Any, **_options: Any) -> None:
        tell_once(f"Config.{name} has no effect here: {reason}")

    option.__name__, option.__doc__ = name, f"Said once to have no effect: {reason}."
    return option


def _answered(name: str, value: Any) -> Callable[..., Any]:
    def option(self: Config) -> Any:
        return value

    option.__name__, option.__doc__ = name, f"{value!r}."
    return option


def _refused(name: str, device: str) -> Callable[..., NoReturn]:
    def option(self: Config, *_args: Any, **_options: Any) -> NoReturn:
        raise EnforceNotMet(f"Config.{name}: there is no {device} here; leave the call out")

    option.__name__, option.__doc__ = name, f"Raises EnforceNotMet: there is no {device}."
    return option


for _make, _table in ((_told, _WITHOUT_EFFECT), (_answered, _ANSWERS), (_refused, _ABSENT)):
    for _name, _about in _table.items():
        setattr(Config, _name, _make(_name, _about))

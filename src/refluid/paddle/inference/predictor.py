"""`create_predictor`: runs a saved model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self

from refluid import __version__
from refluid.core.errors import EnforceNotMet
from refluid.eager import VarBase
from refluid.fluid.inference.predictor import AnalysisPredictor
from refluid.paddle.inference.config import Config
from refluid.paddle.inference.tensors import Tensor


class Predictor(AnalysisPredictor):
    """Runs a model as its `Config` says; one thread at a time, `clone` gives another's."""

    _handles = Tensor

    get_input_handle = AnalysisPredictor.get_input_tensor
    get_output_handle = AnalysisPredictor.get_output_tensor

    def run(self, inputs: Sequence[Any] | None = None) -> Any:
        """Computes the outputs: of what the input handles hold, and True; or of tensors, and them.

        inputs: in the order of `get_input_names`. EnforceNotMet for another number of them.
        """
        if inputs is None:
            return self.zero_copy_run()
        names = self.get_input_names()
        if len(inputs) != len(names):
            raise EnforceNotMet(
                f"the model has {len(names)} inputs ({', '.join(names)}), not {len(inputs)}"
            )
        for name, one in zip(names, inputs, strict=True):
            handle: Any = self.get_input_handle(name)
            handle.share_external_data(one)
        self.zero_copy_run()
        return [
            VarBase(self.get_output_handle(name)._present(), name, stop_gradient=True)
            for name in self.get_output_names()
        ]

    def clone(self, stream: Any = None) -> Self:
        """Another predictor on the same parameters; in whatever stream is torch's then."""
        return super().clone()

    def clear_intermediate_tensor(self) -> None:
        """Nothing is kept between runs but parameters and outputs."""

    def try_shrink_memory(self) -> int:
        """0: what a run used is given back after it."""
        return 0

    def register_output_hook(self, hook: Callable[..., Any]) -> NoReturn:
        """Raises EnforceNotMet: operators aren't called one by one."""
        raise EnforceNotMet(
            f"Predictor.register_output_hook({getattr(hook, '__name__', hook)!r}): operators run "
            "as one plan here; fetch the variables that you want to see"
        )


def create_predictor(config: Config) -> Predictor:
    """A predictor for a saved model.

    EnforceNotMet for missing or damaged files and for a GPU that isn't there, TypeError for what
    is no configuration.
    """
    if not isinstance(config, Config):
        raise TypeError(f"create_predictor takes a paddle.inference.Config, not {config!r}")
    return Predictor(config)


class PredictorPool:
    """Predictors on the same parameters, one for each thread."""

    def __init__(self, config: Config, size: int) -> None:
        if size < 1:
            raise EnforceNotMet(f"PredictorPool: the size has to be 1 at least, not {size}")
        first = create_predictor(config)
        self._predictors = [first, *(first.clone() for _ in range(size - 1))]

    def retrive(self, idx: int) -> Predictor:
        """The predictor of that number, spelled so in Paddle; EnforceNotMet where there is none."""
        if not 0 <= idx < len(self._predictors):
            raise EnforceNotMet(f"PredictorPool: there are {len(self._predictors)}, none {idx}")
        return self._predictors[idx]


def get_version() -> str:
    """What predicts."""
    return f"refluid {__version__}"


def get_trt_compile_version() -> tuple[int, int, int]:
    """(0, 0, 0): there is no TensorRT."""
    return 0, 0, 0


get_trt_runtime_version = get_trt_compile_version

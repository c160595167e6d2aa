"""`Inferencer`: what a `Trainer` of `contrib.trainer` trained, applied; kept for old scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid import compiler, io, unique_name
from refluid.fluid.executor import Executor, scope_guard
from refluid.fluid.framework import program_guard
from refluid.ir.program import Program
from refluid.ir.variable import Variable

__all__ = ["Inferencer"]


class Inferencer:
    """Computes what `infer_func` builds with the parameters that are in the folder `param_path`.

    infer_func: returns a variable or several; it makes its layers in the order of `train_func`, of
    which the parameters have their names. parallel: on all devices.
    """

    def __init__(
        self,
        infer_func: Callable[[], Variable | Sequence[Variable]],
        param_path: str,
        place: Place | None = None,
        parallel: bool = False,
    ) -> None:
        self.param_path, self.place, self.parallel = param_path, place, parallel
        self.scope, built = Scope(), Program()
        with program_guard(built, Program()), unique_name.guard():
            made = infer_func()
        self.predict_var = [made] if isinstance(made, Variable) else [*made]
        self.inference_program = built.clone(for_test=True)
        self._run: Any = self.inference_program
        if parallel:
            self._run = compiler.CompiledProgram(self.inference_program).with_data_parallel()
        self.exe = Executor(place)
        with scope_guard(self.scope):
            io.load_params(self.exe, param_path, self.inference_program)

    def infer(self, inputs: Mapping[str, Any], return_numpy: bool = True) -> list[Any]:
        """The results for inputs by their names, as arrays or as LoDTensors.

        Raises ValueError unless the inputs are a dict.
        """
        if not isinstance(inputs, Mapping):
            raise ValueError(f"infer takes a dict of inputs by name, not a {type(inputs).__name__}")
        with scope_guard(self.scope):
            return self.exe.run(
                self._run,
                feed=dict(inputs),
                fetch_list=self.predict_var,
                return_numpy=return_numpy,
            )

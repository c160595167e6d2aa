"""`InferenceTranspiler` of Fluid 1.0 to 1.5: programs for inference that compute less."""

from __future__ import annotations

from refluid.core.places import Place
from refluid.core.scope import Scope, global_scope
from refluid.fluid.inference.folding import fold_batch_norms
from refluid.ir.program import Program

__all__ = ["InferenceTranspiler"]


class InferenceTranspiler:
    """Folds batch normalisations of a program into the convolutions before them.

    Outputs differ in the last bits then. Predictors do the same by themselves.
    """

    def transpile(self, program: Program, place: Place | None, scope: Scope | None = None) -> None:
        """Changes a program that was cloned for testing, or loaded as a model for inference.

        scope: has the values of its parameters, and gets folded ones; None is the global scope.
        Unlike in Fluid other programs that have these parameters compute as before. Raises
        TypeError for what is no program or scope.
        """
        if not isinstance(program, Program):
            raise TypeError(f"transpile takes a Program, not a {type(program).__name__}")
        if not isinstance(scope, Scope | None):
            raise TypeError(f"scope is a Scope, not a {type(scope).__name__}")
        fold_batch_norms(program, scope or global_scope(), erase=False)

"""How a layer's parameter is made and trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.core.errors import EnforceNotMet
from refluid.fluid.initializer import Initializer


class ParamAttr:
    """Name, initializer, learning rate factor, regularizer and trainability of a parameter."""

    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        do_model_average: bool = True,
    ) -> None:
        if name == "":
            raise ValueError("name of ParamAttr can not be empty str")
        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average

    @staticmethod
    def to_attr(arg: Any) -> Any:
        """What users pass as `param_attr`: None, False, a name, an initializer, a regularizer."""
        if arg is None:
            return ParamAttr()
        if isinstance(arg, list | tuple):
            return [ParamAttr.to_attr(one) for one in arg]
        if isinstance(arg, ParamAttr):
            return arg
        if isinstance(arg, str):
            return ParamAttr(name=arg)
        if isinstance(arg, Initializer):
            return ParamAttr(initializer=arg)
        if isinstance(arg, bool):
            return ParamAttr() if arg else False
        if hasattr(arg, "regularization_coeff") or type(arg).__name__.endswith("Regularizer"):
            return ParamAttr(regularizer=arg)
        raise TypeError(f"{type(arg)} cast to ParamAttr")

    _to_attr = to_attr

    def default_initializer(self, initializer: Initializer | None) -> None:
        """Takes an initializer if none was chosen."""
        if self.initializer is None:
            self.initializer = initializer

    def options(self) -> dict[str, Any]:
        """Arguments of `Parameter`."""
        return {
            "name": self.name,
            "optimize_attr": {"learning_rate": self.learning_rate},
            "regularizer": self.regularizer,
            "trainable": self.trainable,
            "do_model_average": self.do_model_average,
        }


class WeightNormParamAttr(ParamAttr):
    """A parameter as direction and length. Not there yet: making one is an EnforceNotMet."""

    def __init__(self, dim: int | Sequence[int] | None = None, **options: Any) -> None:
        raise EnforceNotMet("WeightNormParamAttr is not in refluid yet; use ParamAttr")

"""How a layer's parameter is made and trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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

    def parameter_options(self) -> dict[str, Any]:
        """Arguments of `Parameter`."""
        return {
            "name": self.name,
            "optimize_attr": {"learning_rate": self.learning_rate},
            "regularizer": self.regularizer,
            "trainable": self.trainable,
            "do_model_average": self.do_model_average,
        }


class WeightNormParamAttr(ParamAttr):
    """A parameter as direction and length; layers refuse it with a clear error so far."""

    def __init__(self, dim: int | Sequence[int] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.dim = dim


def to_attr(arg: Any) -> Any:
    """The `ParamAttr` (or False, or a list of them) of what users pass as `param_attr`.

    None, a name, an initializer and a regularizer stand for attributes that differ in just that.
    """
    if arg is None or arg is True:
        return ParamAttr()
    if arg is False or isinstance(arg, ParamAttr):
        return arg
    if isinstance(arg, list | tuple):
        return [to_attr(one) for one in arg]
    if isinstance(arg, str):
        return ParamAttr(name=arg)
    if isinstance(arg, Initializer):
        return ParamAttr(initializer=arg)
    if callable(arg):
        return ParamAttr(regularizer=arg)
    raise TypeError(f"{type(arg)} cast to ParamAttr")

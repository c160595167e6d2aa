"""ParamAttr: how a layer's parameter is named, initialised and trained."""

from __future__ import annotations

import copy
from typing import Any

from refluid.core.former import formerly
from refluid.fluid.initializer import ConstantInitializer, Initializer, XavierInitializer
from refluid.fluid.regularizer import WeightDecayRegularizer

__all__ = ["ParamAttr", "WeightNormParamAttr"]


class ParamAttr:
    """Attributes of a parameter.

    Args:
        name: the parameter's name; None for `<layer>.w_N` (`.b_N` for a bias). Layers given the
            same name share the parameter.
        initializer: how it starts; None for the layer's default.
        learning_rate: factor on the optimizer's learning rate.
        regularizer: weight decay of this parameter, in place of the optimizer's.
        trainable: whether optimizers change it.
        do_model_average: whether `ModelAverage` averages it.

    Raises TypeError for a name, initializer or regularizer that is none, ValueError for "".
    """

    # How the parameter's gradient is clipped, where nothing else says it.
    gradient_clip: Any = None

    @formerly("gradient_clip", keep=True)
    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: WeightDecayRegularizer | None = None,
        trainable: bool = True,
        do_model_average: bool = True,
    ) -> None:
        if name == "":
            raise ValueError("ParamAttr: name can't be empty; leave it out for a generated one")
        _check("name", name, str)
        _check("initializer", initializer, Initializer)
        _check("regularizer", regularizer, WeightDecayRegularizer)
        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average

    def parameter_options(self) -> dict[str, Any]:
        """Constructor arguments of the `Parameter` this describes, shape and type excepted."""
        return {
            "name": self.name,
            "optimize_attr": {"learning_rate": self.learning_rate},
            "regularizer": self.regularizer,
            "trainable": self.trainable,
            "do_model_average": self.do_model_average,
            "gradient_clip_attr": self.gradient_clip,
        }

    @staticmethod
    def _to_attr(arg: Any) -> Any:
        return to_attr(arg)

    def _to_kwargs(self, with_initializer: bool = False) -> dict[str, Any]:
        """What layer helpers of users' own give to `create_parameter`."""
        return self.parameter_options() | (
            {"initializer": self.initializer} if with_initializer else {}
        )

    def _set_default_initializer(self, initializer: Initializer | None) -> None:
        """The initializer where none was given; ValueError where there is none at all."""
        if initializer is None and self.initializer is None:
            raise ValueError("ParamAttr.initializer is not set")
        self.initializer = self.initializer or initializer

    def _set_default_param_initializer(self) -> None:
        self._set_default_initializer(XavierInitializer())

    def _set_default_bias_initializer(self) -> None:
        self._set_default_initializer(ConstantInitializer(0.0))


class WeightNormParamAttr(ParamAttr):
    """A parameter as direction and length: w = g * v / |v|, see `weight_norm`.

    dim: the dimension with a length of its own for each index; one length for all where None.
    """

    @formerly("gradient_clip", keep=True)
    def __init__(
        self,
        dim: int | None = None,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: WeightDecayRegularizer | None = None,
        trainable: bool = True,
        do_model_average: bool = False,
    ) -> None:
        super().__init__(name, initializer, learning_rate, regularizer, trainable, do_model_average)
        self.dim = dim

    def part(self, letter: str) -> ParamAttr:
        """The attributes of the direction, `v`, or the length, `g`."""
        part = ParamAttr(
            f"{self.name}_{letter}",
            self.initializer if letter == "v" else None,
            self.learning_rate,
            self.regularizer,
            self.trainable,
            do_model_average=self.do_model_average,
        )
        part.gradient_clip = self.gradient_clip
        return part


_SHORTHAND: dict[type, str] = {
    str: "name",
    Initializer: "initializer",
    WeightDecayRegularizer: "regularizer",
}


def to_attr(arg: Any) -> Any:
    """What `param_attr=` and `bias_attr=` accept, as ParamAttr, a list of them, or False for none.

    A str is the name, an initializer or regularizer stands for itself, None is the default and
    False leaves the parameter out. TypeError for anything else.
    """
    if isinstance(arg, list | tuple):
        return [to_attr(one) for one in arg]
    if arg is False or isinstance(arg, ParamAttr):
        return arg
    if arg is None or arg is True:
        return ParamAttr()
    for kind, field in _SHORTHAND.items():
        if isinstance(arg, kind):
            options: dict[str, Any] = {field: arg}
            return ParamAttr(**options)
    raise TypeError(
        f"{type(arg).__name__} is no ParamAttr; give a ParamAttr, its name, an initializer, "
        "a regularizer, or False for no parameter"
    )


def prefixed(attr: Any, by: str | None) -> Any:
    """`attr` with `by` and a point before its name; as it is where there is none of the two."""
    if not by or not isinstance(attr, ParamAttr) or attr.name is None:
        return attr
    named = copy.copy(attr)
    named.name = f"{by}.{attr.name}"
    return named


def _check(what: str, value: Any, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(
            f"ParamAttr: {what} must be {kind.__name__} or None, not {type(value).__name__}"
        )

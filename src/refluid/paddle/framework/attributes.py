"""`ParamAttr` as Paddle 2 has it."""

from __future__ import annotations

from typing import Any

from refluid.fluid.initializer import Initializer
from refluid.fluid.param_attr import ParamAttr as FluidParamAttr
from refluid.fluid.param_attr import WeightNormParamAttr as FluidWeightNormParamAttr
from refluid.fluid.regularizer import WeightDecayRegularizer


class ParamAttr(FluidParamAttr):
    """Attributes of a parameter, as `fluid.ParamAttr`. need_clip: whether optimizers clip it."""

    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: WeightDecayRegularizer | None = None,
        trainable: bool = True,
        do_model_average: bool = True,
        need_clip: bool = True,
    ) -> None:
        super().__init__(name, initializer, learning_rate, regularizer, trainable, do_model_average)
        self.need_clip = need_clip

    def parameter_options(self) -> dict[str, Any]:
        return super().parameter_options() | {"need_clip": self.need_clip}


class WeightNormParamAttr(FluidWeightNormParamAttr):
    """A parameter as direction and length, as `fluid.WeightNormParamAttr`."""

    def __init__(
        self,
        dim: int | None = None,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: WeightDecayRegularizer | None = None,
        trainable: bool = True,
        do_model_average: bool = False,
        need_clip: bool = True,
    ) -> None:
        super().__init__(
            dim, name, initializer, learning_rate, regularizer, trainable, do_model_average
        )
        self.need_clip = need_clip

    def part(self, letter: str) -> FluidParamAttr:
        part = super().part(letter)
        return ParamAttr(
            part.name,
            part.initializer,
            part.learning_rate,
            part.regularizer,
            part.trainable,
            part.do_model_average,
            self.need_clip,
        )

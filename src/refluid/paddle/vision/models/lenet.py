"""LeNet (LeCun et al., 1998)."""

from __future__ import annotations

from refluid.ir.variable import Variable
from refluid.paddle.nn.layer.container import Sequential
from refluid.paddle.nn.layer.conv import Conv2D
from refluid.paddle.nn.layer.functions import MaxPool2D, ReLU
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.nn.layer.parameters import Linear
from refluid.paddle.tensor.manipulation import flatten

__all__ = ["LeNet"]


class LeNet(Layer):
    """Two convolutions and three linear maps of (N, 1, 28, 28)."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.features = Sequential(
            Conv2D(1, 6, 3, stride=1, padding=1),
            ReLU(),
            MaxPool2D(2, 2),
            Conv2D(6, 16, 5, stride=1, padding=0),
            ReLU(),
            MaxPool2D(2, 2),
        )
        if num_classes > 0:
            self.fc = Sequential(Linear(400, 120), Linear(120, 84), Linear(84, num_classes))

    def forward(self, inputs: Variable) -> Variable:
        """Logits (N, num_classes)."""
        x: Variable = self.features(inputs)
        return self.fc(flatten(x, 1)) if self.num_classes > 0 else x

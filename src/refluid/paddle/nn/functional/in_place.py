"""Activations that overwrite what they are given."""

from __future__ import annotations

from refluid.paddle.nn.functional import activation
from refluid.paddle.tensor import math
from refluid.paddle.tensor.in_place import in_place

elu_ = in_place(activation.elu)
hardtanh_ = in_place(activation.hardtanh)
leaky_relu_ = in_place(activation.leaky_relu)
relu_ = in_place(activation.relu)
softmax_ = in_place(activation.softmax)
tanh_ = in_place(math.tanh)
thresholded_relu_ = in_place(activation.thresholded_relu)

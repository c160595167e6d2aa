"""Distributions as operators of the program: Uniform, Normal, Categorical, MultivariateNormalDiag.

Arguments are numbers, lists, arrays or variables.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.core.dtypes import VarType
from refluid.fluid.layers.assignment import assign, cast
from refluid.fluid.layers.comparison import less_than
from refluid.fluid.layers.creation import (
    create_tensor,
    diag,
    fill_constant_batch_size_like,
    ones,
    zeros,
)
from refluid.fluid.layers.elementwise import elementwise_add, elementwise_div, elementwise_mul
from refluid.fluid.layers.elementwise import elementwise_pow as power
from refluid.fluid.layers.elementwise import elementwise_sub
from refluid.fluid.layers.linear import matmul
from refluid.fluid.layers.ops import exp

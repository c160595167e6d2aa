"""g · wᵀ for many g of few rows, by one copy of w in the order in which MKL multiplies.

MKL brings the second factor of a product into that order each time, which takes as long as the
product itself where the first one has few rows, and longer where the factor is a transpose: so are
the gradients of a recurrent network's steps. What will be multiplied often is told in advance.
"""

from __future__ import annotations

from weakref import ref

import torch
from torch import Tensor

from refluid.kernels.parts import part
from refluid.kernels.watching import OpOverload

# Where torch has MKL: order(w, rows) is that copy, linear(g, copy, w, None, rows) the product.
order: OpOverload | None = part("torch.ops.mkl._mkl_reorder_linear_weight.default", None)
linear: OpOverload | None = part("torch.ops.mkl._mkl_linear.default", None)
if not torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
    order = linear = None

# From so many uses on a copy is worth it, of matrices of so many numbers, by factors of so few rows
# (twice 20 rows of 1,300 numbers by as many columns take 1.7 ms, by a copy 1.2, which takes 2).
USES, LEAST, ROWS = 6, 2**17, 64


class PackedWeights:
    """Matrices that are used several times, and copies of them while gradients are computed.

    within: whether gradients are being computed, of products that were noted.
    """

    def __init__(self) -> None:
        # By the place in memory: the matrix, its version when it was used, how often it was.
        self._uses: dict[int, tuple[ref[Tensor], int, int]] = {}
        self._copies: dict[int, tuple[int, Tensor]] = {}
        self.within = False

    def use(self, weight: Tensor) -> None:
        """Notes that one more product will take the transpose of a matrix."""
        if (
            linear is None
            or order is None
            or weight.numel() < LEAST
            or weight.dtype is not torch.float32
        ):
            return
        if weight.dim() != 2 or not weight.is_contiguous() or weight.device.type != "cpu":
            return
        key = weight.data_ptr()
        count = self._uses[key][2] if key in self._uses else 0
        self._uses[key] = ref(weight), weight._version, count + 1

    def begin(self) -> None:
        """Products of what was noted are by copies until `end`."""
        self.within = bool(self._uses)

    def end(self) -> None:
        """All is forgotten."""
        self.within = False
        if self._uses:
            self._uses.clear()
            self._copies.clear()

    def product(self, a: Tensor, b: Tensor) -> Tensor | None:
        """a · b where b is the transpose of a matrix that many products take; None elsewhere."""
        key, rows = b.data_ptr(), a.shape[0]
        if key not in self._uses or rows > ROWS or a.dtype is not torch.float32:
            return None
        known, version, count = self._uses[key]
        weight = known()
        if weight is None or count < USES or weight._version != version:
            return None
        if b.shape != weight.t().shape or b.stride() != weight.t().stride():
            return None
        assert order is not None
        assert linear is not None
        plain = weight.detach()
        if key not in self._copies:
            self._copies[key] = rows, order(plain, rows)
        made_for, copy = self._copies[key]
        if made_for != rows:
            return None
        product: Tensor = linear(a.contiguous(), copy, plain, None, rows)
        return product


packed_weights = PackedWeights()

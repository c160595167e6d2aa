"""`LoDTensor`: a tensor with sequence offsets, and arrays of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from refluid.core.arrays import as_array, is_plain, plain
from refluid.core.dtypes import VarType, as_dtype, dtype_name
from refluid.core.errors import EnforceNotMet
from refluid.core.lod import Lod, lengths_to_offsets, lod_error, offsets_to_lengths
from refluid.core.offsets import Levels, Offsets, as_levels, as_lod
from refluid.core.places import CUDAPinnedPlace, Place, place_of, require_available

C_NAMES = {"float32": "float", "float64": "double", "int32": "int", "int64": "int64_t"}
_SHOWN = 1000


class LoDTensor:
    """A `torch.Tensor` and the offsets that part its rows into (nested) sequences.

    `LoDTensor()` is empty until `set`; `LoDTensor(tensor, lod)` wraps a tensor without a copy and
    takes the offsets as they are; `LoDTensor(lod)` is Fluid's form for offsets alone. `levels`:
    the offsets as operators take them.
    `numpy.array(t)` copies the data, `numpy.asarray(t)` shares it where it lies on the CPU. Without
    data they are empty, (0,).
    """

    __slots__ = ("_tensor", "levels")

    def __init__(
        self,
        tensor: torch.Tensor | Sequence[Sequence[int] | Offsets] | None = None,
        lod: Sequence[Sequence[int] | Offsets] = (),
    ) -> None:
        self._tensor: torch.Tensor | None = None
        if tensor is None or isinstance(tensor, torch.Tensor):
            self._tensor = tensor
        else:
            lod = tensor
        self.levels: Levels = as_levels(lod) if lod else ()

    @property
    def tensor(self) -> torch.Tensor:
        """The data itself; EnforceNotMet if none was set."""
        if self._tensor is None:
            raise EnforceNotMet("The LoDTensor holds no data yet; call set(array, place) first")
        return self._tensor

    @tensor.setter
    def tensor(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def set(self, array: npt.ArrayLike, place: Place, zero_copy: bool = False) -> None:
        """Takes the values of a NumPy array to `place`; the LoD stays as it is.

        With `zero_copy` on the CPU the array's memory is shared. Raises TypeError for element
        types tensors do not have, EnforceNotMet if the machine lacks `place`.
        """
        require_available(place)
        source = as_array(array, "LoDTensor.set")
        shared = plain(source, "LoDTensor.set")
        kept = zero_copy and is_plain(shared)
        data = torch.from_numpy(shared if kept or shared is not source else shared.copy())
        data = data.to(device=place.device)
        self._tensor = data.pin_memory() if isinstance(place, CUDAPinnedPlace) else data

    def shape(self) -> list[int]:
        """The sizes; `[0]` while there is no data."""
        return [0] if self._tensor is None else list(self._tensor.shape)

    def lod(self) -> Lod:
        """The offsets of each level: `[[0, 2, 5]]` for sequences of 2 and 3 rows."""
        return as_lod(self.levels)

    def set_lod(self, lod: Iterable[Iterable[int]]) -> None:
        """Sets the offsets; EnforceNotMet if they are inconsistent or do not fit the data."""
        offsets = [[int(offset) for offset in level] for level in lod]
        reason = lod_error(offsets, self._height())
        if reason:
            raise EnforceNotMet(f"The provided LoD is invalid: {reason}")
        self.levels = as_levels(offsets)

    def recursive_sequence_lengths(self) -> Lod:
        """The LoD as lengths: `[[2, 3]]` for sequences of 2 and 3 rows."""
        return offsets_to_lengths(self.lod())

    def set_recursive_sequence_lengths(self, lengths: Iterable[Iterable[int]]) -> None:
        """Sets the LoD from lengths; EnforceNotMet if they do not fit one another or the data."""
        try:
            self.set_lod(lengths_to_offsets(lengths))
        except EnforceNotMet as error:
            raise EnforceNotMet(
                f"The provided recursive_sequence_lengths info is invalid. {error}"
            ) from None

    def has_valid_recursive_sequence_lengths(self) -> bool:
        """Whether the LoD is consistent and covers exactly the rows of the data."""
        return lod_error(self.lod(), self.shape()[0] if self.shape() else 0) is None

    def _height(self) -> int | None:
        return None if self._tensor is None or not self._tensor.dim() else self._tensor.shape[0]

    def _is_initialized(self) -> bool:
        return self._tensor is not None

    def _dtype(self) -> VarType:
        return as_dtype(self.tensor.dtype)

    def _get_dims(self) -> list[int]:
        return self.shape()

    def _place(self) -> Place:
        return place_of(self.tensor.device)

    def _get_float_element(self, index: int) -> float:
        """The element at a position of the data as one row."""
        return float(self.tensor.detach()[self._position(index)])

    def _set_float_element(self, index: int, value: float) -> None:
        self.tensor.detach()[self._position(index)] = value

    def _position(self, index: int) -> tuple[int, ...]:
        return tuple(int(at) for at in np.unravel_index(index, tuple(self.tensor.shape)))

    _get_double_element, _set_double_element = _get_float_element, _set_float_element

    def _set_dims(self, dims: Sequence[int]) -> None:
        """Sets the sizes; data of as many elements stay."""
        count, old = math.prod(dims), self._tensor
        same = old is not None and old.numel() == count
        self._tensor = old.reshape(tuple(dims)) if same and old is not None else torch.empty(dims)

    def _share_data_with(self, other: LoDTensor) -> LoDTensor:
        """Takes the memory of another one."""
        self._tensor = other.tensor
        return self

    def _copy(self, place: Place) -> LoDTensor:
        """A copy on a place, with the LoD."""
        return LoDTensor(self.tensor.detach().to(place.device, copy=True), self.levels)

    def _clear(self) -> None:
        """Gives the data back."""
        self._tensor = None

    def _to_dlpack(self) -> Any:
        """The data as a DLPack capsule, whose memory is shared."""
        return self.tensor.detach().__dlpack__()

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if self._tensor is None:
            return np.empty(0, dtype)
        data = self._tensor.detach()
        if data.dtype == torch.bfloat16:
            raise TypeError("NumPy has no bfloat16; cast the tensor to float32 first")
        if copy is False and data.device.type != "cpu":
            raise ValueError(f"an array of {data.device} data cannot be made without a copy")
        array = data.cpu().numpy()
        if copy is None:  # which NumPy 1 doesn't take
            return np.asarray(array, dtype)
        return np.array(array, dtype, copy=copy)

    def __getitem__(self, key: Any) -> LoDTensor:
        """A part of the data, sharing its memory and without LoD; indexed as torch tensors are.

        A single element is a tensor of shape (1,): Fluid has none without dimensions.
        """
        part = self.tensor[key]
        return LoDTensor(part if part.dim() else part.reshape(1))

    def __str__(self) -> str:
        lod = levels_text(self.lod())
        if self._tensor is None:
            return f"\tlod: {lod}\n\tnot initialized"
        name = dtype_name(self._dtype())
        flat = self._tensor.detach().reshape(-1)
        shown = numbers_text(flat[:_SHOWN])
        more = f" ... {flat.numel()} values" if flat.numel() > _SHOWN else ""
        return (
            f"\tlod: {lod}\n\tdim: {', '.join(map(str, self.shape()))}\n\tlayout: NCHW\n"
            f"\tdtype: {C_NAMES.get(name, name)}\n\tdata: [{shown}{more}]"
        )

    __repr__ = __str__


def levels_text(lod: Iterable[Iterable[int]]) -> str:
    """Offsets as Fluid writes them: {{0, 2, 5}}."""
    return "{" + ", ".join("{" + ", ".join(map(str, level)) + "}" for level in lod) + "}"


def numbers_text(values: torch.Tensor) -> str:
    """The numbers of a tensor of one dimension as C++ writes them, with spaces between."""
    return " ".join(
        f"{one:g}" if isinstance(one, float) else str(int(one)) for one in values.tolist()
    )


class LoDTensorArray(list[LoDTensor | torch.Tensor]):
    """The values of a `while` loop's steps or of a decoder; grows by `append`.

    Elements are `LoDTensor`, or bare tensors where there is no LoD.
    """

    def append(self, tensor: LoDTensor | torch.Tensor) -> None:
        """Adds a tensor at the end; TypeError for anything else."""
        if not isinstance(tensor, LoDTensor | torch.Tensor):
            raise TypeError(f"a LoDTensorArray holds LoDTensors, not {type(tensor).__name__}")
        super().append(tensor)

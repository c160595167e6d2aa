"""Variables and parameters of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from refluid.core import names
from refluid.core.dtypes import VarType, as_dtype
from refluid.core.lod_tensor import LoDTensor
from refluid.core.scope import Scope
from refluid.core.scope_values import set_value_in, value_in
from refluid.ir.at_once import AtOnce
from refluid.ir.described import Described
from refluid.ir.names import GRAD
from refluid.ir.overloads import Overloads

if TYPE_CHECKING:
    from refluid.ir.block import Block
    from refluid.ir.operator import Operator


class Variable(Overloads, AtOnce, Described):
    """A value of a program: it has a shape (-1 where unknown), an element type and a LoD level.

    It holds no data; data are in a `Scope` while and after the program runs. Its block has it from
    the time it is made, in place of another of its name.
    """

    kind = "var"  # in text

    def __init__(
        self,
        block: Block,
        type: VarType = VarType.LOD_TENSOR,
        name: str | None = None,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
        lod_level: int | None = None,
        capacity: int | None = None,
        persistable: bool | None = None,
        error_clip: Any = None,
        stop_gradient: bool = False,
        is_data: bool = False,
        need_check_feed: bool | None = False,
        belong_to_optimizer: bool = False,
        **_extra: Any,
    ) -> None:
        self.block = block
        self.name = names.generate("_generated_var") if name is None else _text(name)
        self.type = VarType(type)
        self._shape = None if shape is None else tuple(int(size) for size in shape)
        self._dtype = None if dtype is None else as_dtype(dtype)
        self._lod_level = lod_level
        self._persistable = persistable
        self.capacity = capacity
        self.error_clip = error_clip
        self.stop_gradient = stop_gradient
        self.is_data = is_data
        self.need_check_feed = need_check_feed
        self.belong_to_optimizer = belong_to_optimizer
        self.extra_desc: bytes | None = None
        self._info: dict[str, Any] | None = None
        block.add_var(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of all dimensions; -1 is a size known only when the program runs."""
        return self._shape if self._shape is not None else ()

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        self._shape = tuple(int(size) for size in shape)
        self.block.program.touch()

    @property
    def dtype(self) -> VarType:
        """Element type (float32 where nothing was said)."""
        return VarType.FP32 if self._dtype is None else self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self._dtype = as_dtype(dtype)
        self.block.program.touch()

    @property
    def lod_level(self) -> int:
        """Number of nested sequence levels; 0 for a dense tensor."""
        return self._lod_level or 0

    @lod_level.setter
    def lod_level(self, level: int) -> None:
        self._lod_level = level

    @property
    def persistable(self) -> bool:
        """Whether the value stays in the scope after a run (parameters, accumulators)."""
        return bool(self._persistable)

    @persistable.setter
    def persistable(self, persistable: bool) -> None:
        self._persistable = persistable
        self.block.program.touch()

    @property
    def grad_name(self) -> str:
        """Name of this variable's gradient."""
        return self.name + GRAD

    @property
    def op(self) -> Operator | None:
        """The last operator of its block that writes it; None where none does, as of what is fed.

        In Fluid a program's clone has none of them.
        """
        written = (op for op in reversed(self.block.ops) if self.name in op.output_arg_names)
        return next(written, None)

    def set_error_clip(self, error_clip: Any) -> None:
        """Clips the gradient of this variable inside the backward pass."""
        self.error_clip = error_clip

    _set_error_clip = set_error_clip

    def get_value(self, scope: Scope | None = None) -> LoDTensor:
        """Its value in a scope, by default the current one; ValueError where it has none."""
        return value_in(scope, self.name)

    def set_value(self, value: Any, scope: Scope | None = None) -> None:
        """Overwrites its value in a scope. ValueError for another shape or element type."""
        set_value_in(scope, self.name, value)

    def printed_options(self) -> dict[str, Any]:
        """What the text form says of a variable of this kind."""
        return {"persistable": self._persistable}

    def has_description(self) -> bool:
        """Whether shape inference has something to go by."""
        return self._shape is not None

    def has_element_type(self) -> bool:
        """Whether an element type was said, or read from a file."""
        return self._dtype is not None

    def change(self, **attributes: Any) -> None:
        """Sets attributes; the program counts as changed."""
        for name, value in attributes.items():
            setattr(self, name, value)
        self.block.program.touch()

    def describe(self, *, shape: Sequence[int], dtype: VarType | None) -> None:
        """Sets shape and, unless None, element type without marking the program as changed."""
        self._shape = tuple(map(int, shape))
        self._dtype = dtype if dtype is not None else self._dtype

    def _set_info(self, key: str, value: Any) -> None:
        """Keeps anything with the variable, in this process only; copies don't have it."""
        self._info = {**(self._info or {}), key: value}

    def _get_info(self, key: str) -> Any:
        """What was kept under that key; None where nothing was."""
        return (self._info or {}).get(key)

    def options(self) -> dict[str, Any]:
        """Constructor arguments that make an equal variable in another block."""
        return {
            "type": self.type,
            "name": self.name,
            "shape": self._shape,
            "dtype": self._dtype,
            "lod_level": self._lod_level,
            "persistable": self._persistable,
            "capacity": self.capacity,
            "error_clip": self.error_clip,
            "stop_gradient": self.stop_gradient,
            "is_data": self.is_data,
            "need_check_feed": self.need_check_feed,
            "belong_to_optimizer": self.belong_to_optimizer,
        }

    def copy_to(self, block: Block) -> Variable:
        """An equal variable in another block."""
        copy = type(self)(block, **self.options())
        copy.extra_desc = self.extra_desc
        return copy

    def details(self) -> dict[str, Any]:
        """What is set of the variable that no file of a program holds."""
        return {"error_clip": self.error_clip}

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:  # noqa: ARG002
        """The variable as one line of the text form; `with_details` adds a comment to it."""
        from refluid.ir.text import print_var

        return print_var(self, details=with_details)

    def __str__(self) -> str:
        return self.to_string()

    __repr__ = __str__


class Parameter(Variable):
    """A persistable variable that an optimizer may train.

    split_in: number of the group of processes that have a part of it each; 0 where it is whole.
    counted_elsewhere: whether another process counts its gradient in the norm of all.
    Raises ValueError for a shape that is empty or has a dimension below 1.
    """

    kind, counted_elsewhere = "param", False

    def __init__(
        self,
        block: Block,
        shape: Sequence[int],
        dtype: Any,
        type: VarType = VarType.LOD_TENSOR,
        *,
        trainable: bool = True,
        optimize_attr: dict[str, Any] | None = None,
        regularizer: Any = None,
        gradient_clip_attr: Any = None,
        do_model_average: bool | None = False,
        is_distributed: bool = False,
        need_clip: bool = True,
        split_in: int = 0,
        **options: Any,
    ) -> None:
        if any(isinstance(size, str) for size in shape):
            raise TypeError(
                f"parameter {options.get('name')} has shape {list(shape)}; "
                "a dimension is a whole number, no text"
            )
        if len(shape) == 0 or any(size is None or int(size) < 1 for size in shape):
            raise ValueError(
                f"parameter {options.get('name')} has shape {list(shape)}; "
                "every dimension of a parameter must be given and positive"
            )
        options["persistable"] = True
        options.setdefault("stop_gradient", not trainable)
        super().__init__(block, type=type, shape=shape, dtype=dtype, **options)
        self.trainable = trainable
        self.optimize_attr = {"learning_rate": 1.0} if optimize_attr is None else optimize_attr
        self.regularizer = regularizer
        self.gradient_clip_attr = gradient_clip_attr
        self.do_model_average = do_model_average
        self.is_distributed = is_distributed
        self.need_clip = need_clip
        self.split_in = split_in

    def options(self) -> dict[str, Any]:
        return super().options() | {
            "trainable": self.trainable,
            "optimize_attr": self.optimize_attr,
            "regularizer": self.regularizer,
            "gradient_clip_attr": self.gradient_clip_attr,
            "do_model_average": self.do_model_average,
            "is_distributed": self.is_distributed,
            "need_clip": self.need_clip,
            "split_in": self.split_in,
        }

    def details(self) -> dict[str, Any]:
        named = ("trainable", "optimize_attr", "regularizer", "gradient_clip_attr")
        more = ("do_model_average", "need_clip", "is_distributed")
        return {name: getattr(self, name) for name in (*named, *more)} | super().details()

    def printed_options(self) -> dict[str, Any]:
        return {} if self.trainable else {"trainable": False}


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name

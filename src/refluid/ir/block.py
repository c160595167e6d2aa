"""Block: variables by name and operators in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refluid.core.errors import EnforceNotMet, OperatorNotImplemented
from refluid.core.texts import shorten_causes
from refluid.ir import schema
from refluid.ir.absent import no_operator
from refluid.ir.ambient import current_device, current_name_scope
from refluid.ir.at_once import takes_operators
from refluid.ir.attributes import CALLSTACK, DEVICE, NAMESCOPE, ROLE, ROLE_VAR, SubBlock
from refluid.ir.callstack import user_frames
from refluid.ir.checks import check
from refluid.ir.described import Described
from refluid.ir.editor import Editor, OperatorList
from refluid.ir.operator import Operator
from refluid.ir.variable import Parameter, Variable

if TYPE_CHECKING:
    from refluid.ir.program import Program


class Block(SubBlock, Described):
    """A sequence of operators and the variables they share."""

    def __init__(self, program: Program, idx: int, parent_idx: int = -1) -> None:
        self.program = program
        self.idx = idx
        self.parent_idx = parent_idx
        self.forward_block_idx: int | None = None
        self.vars: dict[str, Variable] = {}
        self._ops = OperatorList()

    @property
    def ops(self) -> Sequence[Operator]:
        """The operators in order. They are changed by an `Editor`."""
        return self._ops

    @property
    def backward_block_idx(self) -> int:
        """Index of the gradient block of this one, -1 where there is none."""
        for block in self.program.blocks:
            if block.idx != 0 and block.forward_block_idx == self.idx != 0:
                return block.idx
        return -1

    @property
    def parent(self) -> Block | None:
        """The enclosing block."""
        return None if self.parent_idx < 0 else self.program.blocks[self.parent_idx]

    def has_var(self, name: str) -> bool:
        """Whether this very block has a variable of that name."""
        return name in self.vars

    def var(self, name: str) -> Variable:
        """The variable of this block; ValueError where it has none of that name."""
        if not isinstance(name, str):
            raise TypeError(f"a variable name is a str, not {type(name).__name__}")
        if name not in self.vars:
            raise ValueError(f"var {name} not in this block")
        return self.vars[name]

    def find_var_recursive(self, name: str) -> Variable | None:
        """The variable in this block or the nearest enclosing one that has it."""
        block: Block | None = self
        while block is not None:
            if name in block.vars:
                return block.vars[name]
            block = block.parent
        return None

    def var_recursive(self, name: str) -> Variable:
        """As `find_var_recursive`; ValueError where there is none."""
        found = self.find_var_recursive(name)
        if found is None:
            raise ValueError(f"Var {name} is not found recursively")
        return found

    _find_var_recursive, _var_recursive = find_var_recursive, var_recursive

    def create_var(self, *args: Any, **options: Any) -> Variable:
        """Makes a variable, or returns the one that already has this name.

        initializer: appends the operator that gives it a value to this block.
        """
        name, initializer = options.get("name"), options.pop("initializer", None)
        if name is not None and name in self.vars:
            var = self._same(self.vars[name], options)
        else:
            var = Variable(self, *args, **options)
        if initializer is not None:
            initializer(var, self)
        return var

    def _same(self, var: Variable, options: dict[str, Any]) -> Variable:
        shape = options.get("shape")
        if shape is not None and var.has_description() and tuple(shape) != var.shape:
            raise ValueError(
                f"Variable {var.name!r} has been created before. The previous shape is "
                f"{var.shape}; the new shape is {tuple(shape)}. They are not matched."
            )
        return var

    def add_var(self, var: Variable) -> Variable:
        """Puts a variable made for this block into it; variables do it as they are made."""
        self.vars[var.name] = var
        self.program.touch()
        return var

    def _clone_variable(self, var: Variable, force_persistable: bool = True) -> Variable:
        """A variable of another block here; `force_persistable`: kept after the step."""
        facts = var.options()
        same = ("type", "name", "shape", "dtype", "lod_level", "is_data", "need_check_feed")
        options = {name: facts[name] for name in same}
        return self.create_var(persistable=force_persistable or var.persistable, **options)

    def create_parameter(self, *args: Any, **options: Any) -> Parameter:
        """Makes a parameter; parameters always live in the global block.

        initializer: appends the operator that gives it a value, unless there is one. What the
        operator writes has no gradient otherwise, parameters keep theirs.
        """
        initializer = options.pop("initializer", None)
        home = self.program.global_block()
        parameter = Parameter(home, *args, **options)
        if initializer is not None and not any(
            parameter.name in op.output_arg_names for op in home.ops
        ):
            stops = parameter.stop_gradient
            initializer(parameter, self)
            parameter.stop_gradient = stops
        return parameter

    def all_parameters(self) -> list[Parameter]:
        """The parameters of this block."""
        return list(self.iter_parameters())

    def iter_parameters(self) -> Iterator[Parameter]:
        return (var for var in self.vars.values() if isinstance(var, Parameter))

    def rename_var(self, name: str, new_name: str) -> Variable:
        """Renames a variable here and in all operators of this block."""
        if name not in self.vars:
            raise ValueError(f"var {name} is not in current block")
        self.vars = {new_name if key == name else key: var for key, var in self.vars.items()}
        self.vars[new_name].name = new_name
        self.program.touch()
        for op in self.ops:
            op.rename_input(name, new_name)
            op.rename_output(name, new_name)
        return self.vars[new_name]

    _rename_var = rename_var

    def remove_var(self, name: str) -> None:
        """Forgets a variable."""
        self.vars.pop(name)
        self.program.touch()

    _remove_var = remove_var

    def append_op(self, *args: Any, **options: Any) -> Any:
        """Appends an operator: `append_op(type=, inputs=, outputs=, attrs=)`.

        Inputs and outputs map slots to a variable, a name or a list of them. Missing
        attributes get their defaults; output shapes are inferred. Where operators run at once
        this one does, and the result is None. Raises
        OperatorNotImplemented for an unknown type, ValueError for a wrong slot or attribute.
        """
        return self._take(len(self.ops), *args, **options)

    def prepend_op(self, *args: Any, **options: Any) -> Any:
        """As `append_op`, at the front."""
        return self._take(0, *args, **options)

    def _take(self, index: int, *args: Any, **options: Any) -> Any:
        takes = takes_operators()
        if takes is not None:
            return takes(*args, **options)
        return self.insert_op(index, *args, **options)

    _prepend_op = prepend_op

    def insert_op(
        self,
        index: int,
        type: str,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
        stop_gradient: bool = False,
    ) -> Operator:
        """As `append_op`, before the operator at `index`."""
        op = self.make_op(type, inputs, outputs, attrs)
        check(op)
        Editor(self).insert(index, op)
        found = schema.find(type)
        if found is not None:
            try:
                found.infer(op)
            except Exception as error:
                shorten_causes(error)
                raise
        if stop_gradient:
            for name in op.output_arg_names:
                self.var_recursive(name).stop_gradient = True
        return op

    _insert_op = insert_op

    def make_op(
        self,
        type: str,
        inputs: Mapping[str, Any] | None,
        outputs: Mapping[str, Any] | None,
        attrs: Mapping[str, Any] | None,
    ) -> Operator:
        """A complete, checked operator of this block that is not yet in it."""
        found = schema.find(type)
        if found is None:
            raise OperatorNotImplemented(f"{no_operator(type)}.\n" + "\n".join(user_frames()))
        given = dict(attrs or {})
        complete = {name: value for name, value in given.items() if value is not None}
        for name, attribute in found.attributes.items():
            if attribute.required and name not in complete:
                raise ValueError(f"operator {type} needs attribute {name!r}")
            if not attribute.inner:
                complete.setdefault(name, attribute.default)
        complete.setdefault(ROLE, self.program.op_role)
        complete.setdefault(ROLE_VAR, list(self.program.op_role_var))
        complete.setdefault(NAMESCOPE, current_name_scope())
        complete.setdefault(DEVICE, current_device())
        complete.setdefault(CALLSTACK, user_frames())
        return Operator(
            self,
            type,
            _fill(type, "input", found.inputs, inputs, fill=True),
            _fill(type, "output", found.outputs, outputs, fill=False),
            complete,
        )

    def insert_blank(self, index: int) -> Operator:
        """An operator at `index` that has neither type nor slots yet."""
        op = Operator(self, "")
        Editor(self).insert(index, op)
        return op

    def remove_op(self, index: int) -> None:
        """Removes the operator at a position."""
        Editor(self).remove(self.ops[index])

    _remove_op = remove_op

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:  # noqa: ARG002
        """The block in text form; `with_details` has comments in it."""
        from refluid.ir.text import print_block

        return print_block(self, details=with_details)

    def __str__(self) -> str:
        return self.to_string()

    __repr__ = __str__


def _fill(
    op_type: str,
    side: str,
    slots: tuple[schema.Slot, ...],
    given: Mapping[str, Any] | None,
    *,
    fill: bool,
) -> dict[str, Any]:
    """The given slots in schema order, checked; unused optional inputs are there and empty."""
    if given is None:
        given, fill = {}, False
    known = {slot.name for slot in slots}
    for name in given:
        if name not in known:
            raise ValueError(
                f"operator {op_type} has no {side} {name!r}; it has {', '.join(sorted(known))}"
            )
    complete: dict[str, Any] = {}
    for slot in slots:
        arguments = given.get(slot.name)
        if arguments is None or (isinstance(arguments, list | tuple) and not arguments):
            if not slot.optional:
                raise EnforceNotMet(f"operator {op_type}: {side} {slot.name!r} is not given")
            if fill or arguments is not None:
                complete[slot.name] = []
            continue
        if isinstance(arguments, list | tuple) and len(arguments) > 1 and not slot.many:
            raise ValueError(f"operator {op_type}: {side} {slot.name!r} takes one variable")
        complete[slot.name] = arguments
    return complete

"""Branches: cond, case and switch_case run one of several functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from refluid.build import apply, at_once, check_variables
from refluid.core.dtypes import VarType
from refluid.fluid.functions.control.conditional import ConditionalBlock
from refluid.fluid.functions.control.structures import assert_same_structure, map_structure
from refluid.fluid.functions.math.comparison import equal
from refluid.fluid.functions.math.elementwise import logical_not
from refluid.fluid.functions.tensor.assignment import assign, cast
from refluid.fluid.functions.tensor.creation import fill_constant
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

Branch = Callable[[], Any]


def cond(
    pred: Variable,
    true_fn: Branch | None = None,
    false_fn: Branch | None = None,
    name: str | None = None,
) -> Any:
    """What `true_fn()` gives where `pred`, bool of shape (1,), holds, else what `false_fn()` does.

    Both give variables, or nested tuples and lists of them, in one structure; or both None.
    Where functions run at once, only the one that holds is called.
    Raises TypeError for what can't be called, ValueError where the structures differ.
    """
    check_variables("cond", {"pred": pred})
    if at_once():
        chosen = true_fn if bool(pred) else false_fn
        return None if chosen is None else chosen()
    helper = LayerHelper("cond", name=name)
    true_output = _branch(helper, "true_fn", pred, true_fn)
    false_output = None
    if false_fn is not None:
        false_output = _branch(helper, "false_fn", lambda: logical_not(pred), false_fn)
    if true_output is None and false_output is None:
        return None
    if true_output is None or false_output is None:
        missing = "true_fn" if true_output is None else "false_fn"
        raise ValueError(
            f"Incompatible return values of true_fn and false_fn in cond: {missing} returns "
            "nothing, while the other one returns something"
        )
    try:
        assert_same_structure(true_output, false_output, check_types=False)
    except ValueError as error:
        raise ValueError(
            f"Incompatible return values of true_fn and false_fn in cond: {error}"
        ) from None
    mask = cast(pred, dtype="int32")
    return map_structure(partial(_merged, mask), false_output, true_output)


def _branch(
    helper: LayerHelper,
    what: str,
    pred: Variable | Callable[[], Variable],
    function: Branch | None,
) -> Any:
    """The function's results, as variables of the block that the branch is in."""
    if function is None:
        return None
    if not callable(function):
        raise TypeError(f"The {what} in cond must be callable, not {type(function).__name__}")
    condition = pred if isinstance(pred, Variable) else pred()
    with ConditionalBlock([condition], is_scalar_condition=True).block():
        made = function()
        return None if made is None else map_structure(partial(_outside, helper), made)


def _outside(helper: LayerHelper, var: Any) -> Variable:
    """A variable of the enclosing block with the value of `var`."""
    if not isinstance(var, Variable):
        raise TypeError(f"a branch of cond should return Variables, not {type(var).__name__}")
    program = helper.main_program
    parent = program.current_block().parent
    assert parent is not None
    if var.type == VarType.LOD_TENSOR_ARRAY and parent.find_var_recursive(var.name) is var:
        return var
    out = parent.create_var(
        dtype=var.dtype, shape=var.shape if var.has_description() else None, type=var.type
    )
    assign(var, out)
    return out


def _merged(mask: Variable, false_var: Variable, true_var: Variable) -> Variable:
    """The one of two variables that the mask (0 or 1) says."""
    return select_input([false_var, true_var], mask)


def select_input(inputs: Sequence[Variable], mask: Variable) -> Variable:
    """`inputs[mask]`, `mask` being a whole number of shape (1,)."""
    helper = LayerHelper("select_input")
    first = inputs[0]
    out = helper.create_variable(
        dtype=first.dtype, shape=first.shape if first.has_description() else None, type=first.type
    )
    apply("select_input", {"X": list(inputs), "Mask": mask}, {"Out": out})
    return out


def select_output(input: Variable, outputs: Sequence[Variable], mask: Variable) -> None:
    """Gives `outputs[mask]` the value of `input`; the others get none."""
    apply("select_output", {"X": input, "Mask": mask}, {"Out": list(outputs)})


def case(
    pred_fn_pairs: Sequence[tuple[Variable, Branch]],
    default: Branch | None = None,
    name: str | None = None,
) -> Any:
    """What the function of the first pair gives whose condition holds, else `default`'s.

    Without `default` the last pair's function is the default. Raises TypeError for other than
    pairs of a bool variable and a function.
    """
    pairs = _pairs(pred_fn_pairs)
    if default is None:
        (_, default), pairs = pairs[-1], pairs[:-1]
    elif not callable(default):
        raise TypeError("The default in case must be callable")
    chosen = default
    for pred, function in reversed(pairs):
        chosen = partial(cond, pred=pred, true_fn=function, false_fn=chosen)
    return chosen()


def _pairs(given: Any) -> list[tuple[Variable, Branch]]:
    if not isinstance(given, list | tuple) or not given:
        raise TypeError(f"pred_fn_pairs in case should be a list of pairs, not {given!r}")
    for pair in given:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"an element of pred_fn_pairs in case should be a pair, not {pair!r}")
        check_variables("case", {"pred": pair[0]})
        if not callable(pair[1]):
            raise TypeError(f"the function of {pair[0].name} in case must be callable")
    return list(given)


def switch_case(
    branch_index: Variable,
    branch_fns: Mapping[int, Branch] | Sequence[Any],
    default: Branch | None = None,
    name: str | None = None,
) -> Any:
    """What the function with number `branch_index` gives, else what `default` does.

    branch_index: whole number of shape (1,). branch_fns: functions by number, as a dict or as
    pairs, or functions numbered from 0. Without `default` that with the largest number is it.
    Raises TypeError for other arguments, ValueError for two functions of one number.
    """
    check_variables("switch_case", {"branch_index": branch_index})
    if branch_index.dtype not in (VarType.UINT8, VarType.INT32, VarType.INT64):
        raise TypeError(f"branch_index in switch_case is {branch_index.dtype.name}, not int")
    if branch_index.dtype != VarType.INT64:
        branch_index = cast(branch_index, "int64")
    functions = _numbered(branch_fns)
    if default is None:
        default = functions.pop(max(functions))
        functions = dict(sorted(functions.items()))
    elif not callable(default):
        raise TypeError("The default in switch_case must be callable")
    chosen = default
    for pred, function in [(_equals(branch_index, key), functions[key]) for key in functions]:
        chosen = partial(cond, pred=pred, true_fn=function, false_fn=chosen)
    return chosen()


def _equals(index: Variable, number: int) -> Variable:
    return equal(index, fill_constant(shape=[1], dtype="int64", value=number))


def _numbered(given: Any) -> dict[int, Branch]:
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, list | tuple) and given:
        pairs = [one if isinstance(one, tuple) else (i, one) for i, one in enumerate(given)]
    else:
        raise TypeError(f"branch_fns in switch_case should be a dict or list, not {given!r}")
    found: dict[int, Branch] = {}
    for number, function in pairs:
        if not isinstance(number, int) or not callable(function):
            raise TypeError(
                "branch_fns in switch_case should hold functions by number, not "
                f"({number!r}, {function!r})"
            )
        if number in found:
            raise ValueError(f"branch_fns in switch_case has number {number} twice")
        found[number] = function
    return found

"""How a kernel is called once for all replicas, whose values lie one behind the other.

A value of shape [3, 4] in each of 2 replicas is then one tensor of shape [2, 3, 4]. A rule gives
the call, WRITTEN if it wrote that down itself, or None where each replica must make its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from refluid.kernels import watching
from refluid.runtime.recorded.graph import Kernel, Value
from refluid.runtime.trees import Formula, Tree, method


class Together(Protocol):
    """What a rule knows of the step that it adds to."""

    size: int

    def differs(self, one: Any) -> bool:
        """Whether replicas have different values of it."""

    def stacked(self, value: Value, rank: int | None = None) -> Tree:
        """The values of all replicas as one tensor.

        rank: with so many dimensions behind that of the replicas, new ones in front. A value
        that is the same in all replicas stays as it is.
        """

    def flat(self, value: Value) -> Tree:
        """The rows of all replicas' matrices as one matrix."""

    def flat_columns(self, value: Value) -> Tree:
        """The columns of all replicas' matrices as one matrix."""

    def made_flat(self, value: Value, call: Tree) -> Tree:
        """Writes down that a call makes the rows of all replicas."""

    def is_flat(self, kernel: Kernel) -> bool:
        """Whether the kernel can be called with matrices of the rows of all replicas."""

    def rows(self, one: Any) -> Tree:
        """A matrix of the rows of all replicas, or what goes with any."""

    def written(self, one: Any) -> Tree:
        """Anything that is the same in all replicas."""

    def call(self, kernel: Kernel, *arguments: Tree, **options: Tree) -> Tree:
        """A call of the kernel."""


WRITTEN = Formula("", ())
Rule = Callable[[Together, Kernel], Tree | None]

RULES: dict[str, Rule] = {}
SUMMED: dict[str, Rule] = {}
# Rules whose result lies in the memory of the first argument.
VIEWS = frozenset({"view", "_unsafe_view", "t", "transpose", "permute", "unsqueeze", "squeeze"})
VIEWS |= {"split", "split_with_sizes", "unbind", "expand", "slice", "select", "detach", "alias"}

_ELEMENTWISE = """
    add sub mul div rsub relu sigmoid tanh exp log log1p sqrt rsqrt neg abs pow reciprocal maximum
    minimum square sign floor silu gelu leaky_relu elu hardtanh softplus erf clamp clamp_min
    clamp_max eq ne lt le gt ge logical_and logical_or logical_not where masked_fill addcmul addcdiv
    threshold_backward sigmoid_backward tanh_backward gelu_backward leaky_relu_backward
    elu_backward hardtanh_backward silu_backward softplus_backward
    clone zeros_like ones_like full_like _to_copy
    add_ sub_ mul_ div_ relu_ sigmoid_ tanh_ exp_ log_ sqrt_ rsqrt_ neg_ abs_ pow_ reciprocal_
    square_ clamp_ clamp_min_ clamp_max_ masked_fill_ addcmul_ addcdiv_ copy_ fill_ zero_
"""


def rule(*names: str, table: dict[str, Rule] = RULES) -> Callable[[Rule], Rule]:
    """Registers the rule of these kernels."""

    def decorate(function: Rule) -> Rule:
        table.update(dict.fromkeys(names, function))
        return function

    return decorate


def name_of(kernel: Kernel) -> str:
    """The kernel's name without its overload, and without `aten::`."""
    return watching.name_of(kernel.func)


def _dims(value: Value) -> int:
    assert value.layout is not None
    return len(value.layout.shape)


def _shifted(dim: int) -> int:
    return dim + 1 if dim >= 0 else dim


def _flat(to: Together, kernel: Kernel, call: Tree) -> Tree:
    """The call of one that returns a matrix, a new one or one that it was given."""
    (out,) = kernel.outs
    return call if out is None or out in set(kernel.uses) else to.made_flat(out, call)


@rule(*_ELEMENTWISE.split())
def _elementwise(to: Together, kernel: Kernel) -> Tree | None:
    if to.is_flat(kernel):
        options = {name: to.rows(one) for name, one in kernel.kwargs.items()}
        return _flat(to, kernel, to.call(kernel, *map(to.rows, kernel.args), **options))
    dims = max(_dims(value) for value in kernel.uses if value.layout is not None)

    def part(one: Any) -> Tree:
        return to.stacked(one, dims) if isinstance(one, Value) else to.written(one)

    options = {name: part(one) for name, one in kernel.kwargs.items()}
    return to.call(kernel, *map(part, kernel.args), **options)


@rule("addmm", "mm", "mkldnn::_linear_pointwise")
def _product(to: Together, kernel: Kernel) -> Tree | None:
    if name_of(kernel) == "mm" and to.differs(kernel.args[1]):
        return _matrices(to, kernel)
    given, (out,) = list(kernel.args), kernel.outs
    place = 1 if name_of(kernel) == "addmm" else 0
    rows = given.pop(place)
    if kernel.kwargs or out is None or to.differs(given) or not to.differs(rows):
        return None
    if place and _dims(given[0]) > 1:
        return None
    parts = [to.written(one) for one in given]
    return to.made_flat(out, to.call(kernel, *parts[:place], to.flat(rows), *parts[place:]))


def _matrices(to: Together, kernel: Kernel) -> Tree | None:
    one, other = kernel.args
    if to.differs(one):
        return method(to.stacked(one), "bmm", to.stacked(other))
    rows = to.flat_columns(other)
    assert other.layout is not None
    product = to.call(kernel, to.written(one), rows)
    parts = method(product, "unflatten", 1, (to.size, other.layout.shape[1]))
    return method(parts, "transpose", 0, 1)


@rule("mm", table=SUMMED)
def _summed_product(to: Together, kernel: Kernel) -> Tree | None:
    one, other = kernel.args
    if not (to.differs(one) and to.differs(other)):
        return None
    return to.call(kernel, to.flat_columns(one), to.flat(other))


@rule("mkldnn::_linear_pointwise", table=SUMMED)
def _summed_linear(to: Together, kernel: Kernel) -> Tree | None:
    one, other, bias, *rest = kernel.args
    if not (to.differs(one) and to.differs(other)) or bias is not None:
        return None
    given = to.flat_columns(one), to.flat_columns(other), None
    return to.call(kernel, *given, *map(to.written, rest))


@rule("sum", "mean", "amax", "amin", "softmax", "_softmax", "_log_softmax")
def _along(to: Together, kernel: Kernel) -> Tree | None:
    value, *rest = kernel.args
    if not _dims(value):
        return None
    dims = rest[0] if rest else None
    if dims in (1, -1, [1], [-1]) and to.is_flat(kernel):
        given = [to.rows(value), *map(to.written, rest)]
        return _flat(to, kernel, to.call(kernel, *given, **_options(to, kernel)))
    if dims is None or dims == []:
        shifted: Any = list(range(1, _dims(value) + 1))
    else:
        shifted = [_shifted(d) for d in dims] if isinstance(dims, list) else _shifted(dims)
    others = [to.written(one) for one in (shifted, *rest[1:])]
    return to.call(kernel, to.stacked(value), *others, **_options(to, kernel))


@rule("sum", table=SUMMED)
def _summed_sum(to: Together, kernel: Kernel) -> Tree | None:
    value, *rest = kernel.args
    if len(rest) != 1 or not rest[0] or kernel.kwargs:
        return None
    if rest[0] == [0] and _dims(value) == 2:
        return to.call(kernel, to.flat(value), [0])
    dims = [0, *(_shifted(dim) for dim in rest[0])]
    return to.call(kernel, to.stacked(value), to.written(dims))


@rule("embedding_dense_backward", table=SUMMED)
def _summed_rows(to: Together, kernel: Kernel) -> Tree | None:
    slopes, ids, *rest = kernel.args
    if kernel.kwargs or rest[-1]:  # scaled by how often an id comes
        return None
    if not (to.differs(slopes) and to.differs(ids)):
        return None
    given = [to.stacked(one, _dims(one)) for one in (slopes, ids)]
    return to.call(kernel, *given, *map(to.written, rest))


@rule("_softmax_backward_data", "_log_softmax_backward_data")
def _softmax_gradient(to: Together, kernel: Kernel) -> Tree | None:
    slopes, out, dim, kind = kernel.args
    if not (to.differs(slopes) and to.differs(out)) or not _dims(out):
        return None
    given = to.stacked(slopes), to.stacked(out), to.written(_shifted(dim)), to.written(kind)
    return to.call(kernel, *given)


@rule("gather", "scatter_add_")
def _picked(to: Together, kernel: Kernel) -> Tree | None:
    value, dim, *rest = kernel.args
    if kernel.kwargs or not all(isinstance(one, Value) for one in rest):
        return None
    if dim in (1, -1) and to.is_flat(kernel):
        call = to.call(kernel, to.rows(value), to.written(dim), *map(to.rows, rest))
        return _flat(to, kernel, call)
    spread = [
        to.stacked(one)
        if to.differs(one)
        else method(to.written(one), "expand", to.size, *[-1] * _dims(one))
        for one in (value, *rest)
    ]
    return to.call(kernel, spread[0], to.written(_shifted(dim)), *spread[1:])


@rule("embedding")
def _looked_up(to: Together, kernel: Kernel) -> Tree | None:
    table, ids, *rest = kernel.args
    if to.differs(table):
        return None
    return to.call(kernel, to.written(table), to.stacked(ids), *map(to.written, rest))


@rule("native_layer_norm")
def _normalised(to: Together, kernel: Kernel) -> Tree | None:
    value, *rest = kernel.args
    if any(map(to.differs, rest)):
        return None
    return to.call(kernel, to.stacked(value), *map(to.written, rest))


@rule("cat")
def _joined(to: Together, kernel: Kernel) -> Tree | None:
    values, *rest = kernel.args
    if not all(map(to.differs, values)):
        return None
    dim = _shifted(rest[0] if rest else 0)
    return to.call(kernel, [to.stacked(one) for one in values], to.written(dim))


@rule("split", "split_with_sizes", "unbind")
def _split(to: Together, kernel: Kernel) -> Tree | None:
    value, *rest = kernel.args
    place = 0 if name_of(kernel) == "unbind" else 1
    dim = rest[place] if len(rest) > place else 0
    sizes = map(to.written, rest[:place])
    return to.call(kernel, to.stacked(value), *sizes, to.written(_shifted(dim)))


@rule("view", "_unsafe_view", "expand")
def _shaped(to: Together, kernel: Kernel) -> Tree | None:
    value, shape = kernel.args
    if not isinstance(shape, list):  # an element type
        return None
    given = to.stacked(value, len(shape)) if name_of(kernel) == "expand" else to.stacked(value)
    return to.call(kernel, given, to.written([to.size, *shape]), **_options(to, kernel))


@rule("t", "transpose", "permute", "unsqueeze", "squeeze", "slice", "select", "detach", "alias")
def _viewed(to: Together, kernel: Kernel) -> Tree | None:
    value, *rest = kernel.args
    name, given = name_of(kernel), to.stacked(value)
    if name == "t":
        return None
    if name in ("detach", "alias"):
        return given
    if not rest or kernel.kwargs:
        return None
    if name == "permute":
        rest = [[0, *(dim % _dims(value) + 1 for dim in rest[0])]]
    elif isinstance(rest[0], list):
        rest = [[_shifted(dim) for dim in rest[0]]]
    else:
        count = 2 if name == "transpose" else 1
        rest = [*map(_shifted, rest[:count]), *rest[count:]]
    return to.call(kernel, given, *map(to.written, rest))


def _options(to: Together, kernel: Kernel) -> dict[str, Tree]:
    return {name: to.written(one) for name, one in kernel.kwargs.items()}

"""Facts about operators that plans, passes and gradients ask for.

They stand in the operator's decorator and nowhere else. Slots are written as in the signature
(`d_Out` is `Out@GRAD`), several in one text: `without_lod="Mask Index"`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from refluid.ir.operator import Operator
from refluid.ops.effects import Effect
from refluid.ops.lod_rules import Choice
from refluid.ops.signature import slot_name

Slots = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Facts:
    """Memory:

    - `mutates`: output slot -> input slot that the body overwrites and returns.
    - `views`: output slot -> input (or other output) slot whose memory the output may share.
    - `copies`: it only copies, as is seen where operators run at once: there nothing is shared.
    - `untouched`: output slots that programs name and the body leaves as they are.
    - `starts_without`: input slots (`"Seed"`) whose persistable variable may have no value yet.
    - `shape_only`: input slots of which the body looks at shape, element type and LoD alone.
    - `filter`: input slot of a convolution's filter, which decides the layout of its output.
    - `pools`: takes windows of images, faster where their channels lie side by side.

    Sequences:

    - `lod`: input slot whose LoD the outputs take, empty for none; or a function of the operator.
    - `lod_by`: gives the rule (`ops/lod_rules.py`) that makes the first output's LoD instead.
    - `without_lod`: output slots that have no LoD.
    - `makes_lod`: output slots whose LoD the body returns itself, after all outputs.
    - `gradient_lod`: whose LoD its gradients have: that of their `variable`, of the gradient that
      is `given`, `none`, or that of their variable though they declare none (`undeclared`). In
      Fluid each gradient operator decides for itself; recorded programs and runs show it.
    - `follows`: output slot -> input slot whose size is declared where another input's is unknown.

    Rewriting:

    - `amp`: mixed precision class: `fast`, `keep` (float32), `promote` or `follow`.
    - `full_precision`: input slots that stay float32 beside half activations.
    - `recomputable`: input slots of the first output's size, of which it is made a second time at
      little cost and to the same bits.
    - `activation`: backward passes read the first output, and may have it made a second time.
    - `matrix_product`: the attributes with which it is the product of the matrices X and Y.
    - `stacked`: how it treats several X stacked along a new first dimension: `alike`, or `beside Y`
      where Y, the same for all, counts from the last dimension.
    - `synchronised`: the operator that does the same over the batches of all replicas.
    - `sums_replicas`: the outputs are the sums of X over all replicas (with no `reduce_type`).
    - `compresses`: output slot that holds the part of a gradient that replicas exchange instead.
    - `adds`: the output is the sum of all X; that of rows of a table may be rows.
    - `casts`: the output is X in another element type, in the same layout.
    - `rows_only`: rearranges rows of a table, in the only input; to a dense one it does nothing.
    - `gives_rows`: a gradient that is rows of a table where `is_sparse`, for which `as_dense` too.
    - `sparse`: those of a gradient's outputs that are rows of a table where `is_sparse`; where it
      doesn't say so, the gradients of all parameters.
    - `rows_suffice`: input slot -> output slot that is rows of a table where the former is, or none
      (`""`): of a table's gradient the rows that aren't zero do. Or a function of the operator.
    - `checks`: output slot that says whether an element of X, which Scale divides in place, is
      inf or nan. `clears`: it then sets X to zero.
    - `decays`: the attribute, none of Fluid's, of how much of its parameter an update adds to the
      gradient.

    Others:

    - `effects`: what it does besides giving its outputs (`ops/effects.py`).
    - `seeded`: input slot of a seed, given which it draws the same a second time.
    - `reverted`: backward passes take it back, gradients or not, as loops' counters.
    - `reads`: what it gives comes from a reader and follows from nothing that a plan is fed.
    - `ahead`: by how much Out is more than X, of an operator; None where it doesn't say.
    - `by_tiles`: of an update, the operator that computes the gradient, of the weights of a fully
      connected layer, as well: tile by tile.
    - `times`: how many times X Out is, of an operator; None where it doesn't say.
    - `less_by`: Out says, of whole numbers, whether X and this much is less than Y.
    - `position`: input slot of the place of an item in an array, or of a step; where a loop's
      number says it, the body is given that.
    - `rows`: input slot of a table -> input slot of the numbers of rows that it takes.
    - `classes`: input slot of numbers of classes; an error says so where one is none.
    - `layer`: the layer that users call for it, where that has another name.
    - `once`: a gradient of which there is no gradient where operators run at once.
    - `called`: what messages call it, where users know it as another operator.
    - `working`: input or output slot -> how many times its bytes it holds while it runs, by
      measurement, for each of its `num_layers`.
    - `chooses_on`: devices on which torch's settings choose its kernel (class `fast`: on all).
    - `by_autograd`: its gradient operator, though written, computes what torch's derivative of the
      body is; where operators run at once, autograd has it: `always`, or of `products` of matrices
      where refluid doesn't multiply faster than torch (`kernels/products.py`).
    - `sums_rows`: input slot of a weight -> input slot whose rows (first dimension), with those of
      the outputs, its gradient is a sum over; or a function of the operator.
    - `made_of`: what strategies call it by, as it was fused of that.
    - `differentiable`: input slots that have a gradient, in the order in which a `@gradient` body
      returns them; None for all inputs.
    """

    mutates: Mapping[str, str] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    copies: bool = False
    untouched: Slots = ()
    starts_without: Slots = ()
    shape_only: Slots = ()
    filter: str = ""
    pools: bool = False
    lod: str | Callable[[Operator], str] = ""
    lod_by: Choice | None = None
    without_lod: Slots = ()
    makes_lod: Slots = ()
    gradient_lod: str = "variable"
    follows: Mapping[str, str] = field(default_factory=dict)
    effects: Effect = Effect.NONE
    amp: str = "follow"
    full_precision: Slots = ()
    recomputable: Slots = ()
    activation: bool = False
    matrix_product: Mapping[str, Any] = field(default_factory=dict)
    stacked: str = ""
    synchronised: str = ""
    sums_replicas: bool = False
    compresses: Slots = ()
    adds: bool = False
    casts: bool = False
    rows_only: bool = False
    gives_rows: bool = False
    checks: str = ""
    clears: bool = False
    decays: str = ""
    by_tiles: str = ""
    sparse: Slots = ()
    rows_suffice: Mapping[str, str] | Callable[[Operator], Mapping[str, str]] = field(
        default_factory=dict
    )
    seeded: str = ""
    reverted: bool = False
    reads: bool = False
    ahead: Callable[[Operator], float | None] | None = None
    times: Callable[[Operator], float | None] | None = None
    less_by: int | None = None
    position: str = ""
    rows: Mapping[str, str] = field(default_factory=dict)
    classes: str = ""
    layer: str = ""
    called: str = ""
    once: bool = False
    working: Mapping[str, float] = field(default_factory=dict)
    chooses_on: Slots = ()
    by_autograd: str = ""
    sums_rows: Mapping[str, str] | Callable[[Operator], Mapping[str, str]] = field(
        default_factory=dict
    )
    made_of: Slots = ()
    differentiable: Slots | None = None


_KINDS = {one.name: str(one.type) for one in fields(Facts)}


def check(flags: Mapping[str, Any]) -> None:
    """TypeError where one of a decorator's flags is no fact."""
    unknown = flags.keys() - _KINDS.keys()
    if unknown:
        raise TypeError(f"{sorted(unknown)} are no facts about operators; these are: {[*_KINDS]}")


def read(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags of a decorator as fields of `Facts`."""
    return {name: _value(_KINDS[name], value) for name, value in flags.items()}


def _value(kind: str, value: Any) -> Any:
    if kind.startswith("Slots"):
        return tuple(map(slot_name, value.split()))
    if isinstance(value, Mapping):
        return {slot_name(slot): _value("", other) for slot, other in value.items()}
    return slot_name(value) if isinstance(value, str) else value

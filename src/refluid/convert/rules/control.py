"""Loops, branches, and lists of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.analysis.uses import key_of, names_written
from refluid.convert.rules.calls import Template, calls, filled
from refluid.convert.site import Expression, LoopState, Site, short
from refluid.convert.table import converts
from refluid.core.dtypes import VarType
from refluid.ir.block import Block
from refluid.ir.operator import Operator

calls(
    {
        "array_to_lod_tensor": Template("rows_of_steps({X}, {RankTable})", lengths="{RankTable}"),
        "lod_tensor_to_array": Template("time_steps({X}, {RankTable})", lengths=""),
        "max_sequence_len": Template("{RankTable.x}.max()", scalar=True, lengths=""),
        "rnn_memory_helper": "{X}",
        "shrink_rnn_memory": Template("{X.x}[: int(({RankTable.x} > {I.x}).sum())]", lengths=""),
    }
)


@converts("lod_rank_table")
def lod_rank_table(site: Site) -> None:
    """Sequences by length; here their lengths, of which what uses them makes the order."""
    site.require(site.var("X").lod_level <= 1 and not site.attr("level"), "of nested sequences")
    site.give(site.lengths(), lengths="")


@converts("reorder_lod_tensor_by_rank")
def reorder(site: Site) -> None:
    lengths, order = site.value("X").lengths, "{RankTable.x}.argsort(descending=True, stable=True)"
    if not lengths:
        site.give(filled(site, f"{{X.x}}[{order}]"), lengths="")
        return
    local = site.writer.fresh()
    site.writer.line(f"{local} = {filled(site, order)}")
    parts = f"{site.x()}.split({lengths}.tolist())"
    site.writer.line(f"{local}_parts = {parts}")
    site.give(f"torch.cat([{local}_parts[i] for i in {local}])", lengths=f"{lengths}[{local}]")


@converts("increment")
def increment(site: Site) -> None:
    name = site.name("X")
    if site.op in [one.step for one in site.writer.counters.values()]:
        site.writer.begin(site.writer.key(name), Expression(f"{site.arg()} + 1", loose=True))
        return
    step = short(site.attr("step", 1.0))
    whole = site.var("X").dtype in (VarType.INT32, VarType.INT64)
    site.give(f"{site.number()} + {int(step) if whole else step!r}", loose=True,
              scalar=site.value("X").scalar)  # fmt: skip


# -- lists --------------------------------------------------------------------


@converts("write_to_array")
def write_to_array(site: Site) -> None:
    """A list grows by one element, where the place says so; `put` otherwise."""
    writer, name = site.writer, site.op.output("Out")[0]
    place, array = site.arg("I"), writer.known(name)
    number = writer.source.constant_of(site.name("I"))
    place = str(int(number)) if number is not None else place
    if array is None and place == "0":
        array = _list(site, name, f"[{site.arg('X')}]", "1")
        return
    array = array or _list(site, name)
    local = array.text
    if writer.lists.get(local) == place:
        writer.line(f"{local}.append({site.arg('X')})")
        writer.lists[local] = ""
        return
    writer.lists[local] = ""
    writer.line(f"put({local}, {place}, {site.arg('X')})")


def _list(site: Site, name: str, text: str = "[]", end: str = "0") -> Expression:
    local = site.writer.fresh_list()
    site.writer.line(f"{local} = {text}")
    site.writer.lists[local] = end
    value = Expression(local)
    site.writer.begin(site.writer.key(name), value)
    return value


@converts("read_from_array")
def read_from_array(site: Site) -> None:
    site.give(filled(site, "{X.x}[{I}]"), lengths="")


@converts("lod_array_length")
def lod_array_length(site: Site) -> None:
    site.give(f"torch.tensor([len({site.arg('X')})])", lengths="")


@converts("tensor_array_to_tensor")
def tensor_array_to_tensor(site: Site) -> None:
    site.require(not site.needed("OutIndex"), "the sizes of the elements")
    joined = "stack" if site.attr("use_stack") else "cat"
    site.give(f"torch.{joined}({site.arg('X')}, dim={site.attr('axis', 0)})", lengths="")


# -- loops --------------------------------------------------------------------


@converts("recurrent")
def recurrent(site: Site) -> None:
    """`StaticRNN`: a loop over the first dimension of its inputs."""
    writer, op, block = site.writer, site.op, site.block()
    writer.hold_for(op)
    backwards = bool(site.attr("reverse"))
    states = []
    for first, before, after in zip(
        op.input("initial_states"), site.attr("ex_states", []), site.attr("states", []), strict=True
    ):
        keys = key_of(block, before), key_of(block, _made_of(writer.kept_ops[block.idx], after))
        states.append(writer.state(*keys, writer.value(first)))
        writer.begin(keys[0], Expression(states[-1].local))
    wanted = [name for name in op.output("outputs") if writer.needs(name)]
    lists = {name: writer.fresh_list() for name in wanted}
    for name in lists.values():
        writer.line(f"{name} = []")
    items: list[str] = []
    given: list[str] = []
    for name in op.input("inputs"):
        given.append(f"{writer.value(name).text}{'.flip(0)' if backwards else ''}")
        items.append(writer.fresh(*items))
    for name, item in zip(op.input("inputs"), items, strict=True):
        writer.begin(key_of(block, name), Expression(item))
        writer.hold(key_of(block, name), item)
    across = given[0] if len(given) == 1 else f"zip({', '.join(given)})"
    writer.line(f"for {', '.join(items)} in {across}:")
    with writer.nested(block, states):
        for name, local in lists.items():
            writer.line(f"{local}.append({writer.value(name).text})")
    for place, name in enumerate(op.output("outputs")):
        if name in lists:
            given_list = f"{lists[name]}[::-1]" if backwards else lists[name]
            site.give(f"torch.stack({given_list})", "outputs", place, lengths="")


def _made_of(ops: Sequence[Operator], name: str) -> str:
    """The variable that a state is a copy of."""
    copies = [op for op in ops if op.type == "rnn_memory_helper" and name in op.output("Out")]
    return copies[0].input("X")[0] if copies else name


@converts("while")
def repeat(site: Site) -> None:
    """A loop; one that counts up to a limit is a `for`."""
    writer, op, block = site.writer, site.op, site.block()
    writer.hold_for(op)
    counter = writer.counters.get(id(op))
    arrays, carried = _changed(site, block)
    for name in arrays:
        if writer.known(name) is None:
            _list(site, name)
    states: list[LoopState] = []
    for name in carried:
        if counter is not None and name in counter.skipped:
            continue
        key = writer.key(name)
        states.append(writer.state(key, key, writer.value(name)))
        writer.begin(key, Expression(states[-1].local, lengths=writer.value(name).lengths))
    if counter is None:
        writer.lists.clear()
        writer.line(f"while {writer.value(site.name('Condition')).text}:")
    else:
        local = writer.fresh_counter()
        writer.begin(writer.key(counter.name), Expression(local))
        first = f"{counter.first}, " if counter.first else ""
        writer.line(f"for {local} in range({first}int({writer.value(counter.limit).text})):")
        ends = {"0": local, "1": f"{local} + 1"} if not counter.first else {}
        writer.lists = {name: ends.get(end, "") for name, end in writer.lists.items()}
    with writer.nested(block, states):
        for name in _left_behind(site, arrays, carried):
            writer.held(name)
    writer.lists.clear()


def _changed(site: Site, block: Block) -> tuple[list[str], list[str]]:
    """Lists that a block writes to, and other variables that it changes."""
    arrays, carried = [], []
    for name in dict.fromkeys(names_written(site.op)):
        var = site.op.block.var_recursive(name)
        if var.type == VarType.LOD_TENSOR_ARRAY:
            arrays.append(name)
        elif var.type != VarType.STEP_SCOPES and (
            site.writer.known(name) is not None or name in site.writer.source.values
        ):
            carried.append(name)
    inside = {name for op in site.writer.kept_ops[block.idx] for name in op.output_arg_names}
    return arrays, [name for name in carried if name in inside]


def _left_behind(site: Site, arrays: Sequence[str], carried: Sequence[str]) -> list[str]:
    """What a block gives to those after it for the first time."""
    known = {*arrays, *carried}
    return [
        name
        for name in dict.fromkeys(names_written(site.op))
        if name not in known and site.writer.known(name) is not None
    ]


# -- branches -----------------------------------------------------------------


@converts("conditional_block")
def branch(site: Site) -> None:
    """A branch; what it sets for the first time is only read where it was taken."""
    site.require(site.attr("is_scalar_condition"), "of rows")
    writer, block = site.writer, site.block()
    writer.hold_for(site.op)
    arrays, carried = _changed(site, block)
    site.require(not arrays, "lists that a branch writes to")
    states = []
    for name in carried:
        key = writer.key(name)
        states.append(writer.state(key, key, writer.value(name)))
        writer.begin(key, Expression(states[-1].local, lengths=writer.value(name).lengths))
    writer.line(f"if {writer.value(site.name('Cond')).text}:")
    with writer.nested(block, states):
        for name in _left_behind(site, arrays, carried):
            writer.pinned(name)


@converts("select_input")
def select_input(site: Site) -> None:
    count = len(site.names("X"))
    site.require(count == 2, "of more than two")
    no, yes = (site.arg("X", place) for place in range(2))
    site.give(f"{yes} if {site.arg('Mask')} else {no}", loose=True, lengths="")

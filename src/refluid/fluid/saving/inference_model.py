"""`save_inference_model` and `load_inference_model`: a pruned program with its parameters."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refluid.build import apply
from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.files import map_file
from refluid.core.writing import Write, write_files
from refluid.fluid.saving.persistence import is_persistable, load_vars, writing
from refluid.fluid.saving.programs import program_to_save
from refluid.fluid.saving.served import as_trained_alone
from refluid.fluid.saving.split_parts import require_whole
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.passes.prune import prune

_log = logging.getLogger("refluid")


def prepend_feed_ops(
    inference_program: Program,
    feed_target_names: Sequence[str],
    feed_holder_name: str = "feed",
) -> None:
    """Puts a `feed` operator for each name before all others."""
    block = inference_program.global_block()
    block.create_var(name=feed_holder_name, type=VarType.FEED_MINIBATCH, persistable=True)
    for column, name in enumerate(feed_target_names):
        if not block.has_var(name):
            raise ValueError(
                f"The feeded_var_names[{column}]: {name!r} doesn't exist in pruned inference "
                "program. Please check whether it is a valid feeded_var name, or remove it from "
                "feeded_var_names if it is not involved in the target_vars calculation."
            )
        inputs, outputs = {"X": feed_holder_name}, {"Out": name}
        apply("feed", inputs, outputs, {"col": column}, block=block, index=0)


def append_fetch_ops(
    inference_program: Program,
    fetch_target_names: Sequence[str],
    fetch_holder_name: str = "fetch",
) -> None:
    """Puts a `fetch` operator for each name after all others."""
    block = inference_program.global_block()
    block.create_var(name=fetch_holder_name, type=VarType.FETCH_LIST, persistable=True)
    for column, name in enumerate(fetch_target_names):
        outputs = {"Out": fetch_holder_name}
        apply("fetch", {"X": name}, outputs, {"col": column}, block=block)


def save_inference_model(
    dirname: str | Path,
    feeded_var_names: Sequence[str] | str | None,
    target_vars: Sequence[Variable] | Variable,
    executor: Any,
    main_program: Program | None = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
    export_for_deployment: bool = True,
    program_only: bool = False,
) -> list[str]:
    """Saves the part of a program that computes `target_vars` from the fed variables.

    Writes `dirname/__model__` (or `model_filename`) and the parameters it needs, one file each
    or together in `params_filename`. The program given is left as it is. Returns the names of
    the fetched variables in the saved program.
    Raises ValueError for a feed that the targets don't depend on, and for feeds that are no names
    or targets that are no variables, EnforceNotMet for parameters without value.
    """
    feeds = [feeded_var_names] if isinstance(feeded_var_names, str) else feeded_var_names or []
    targets = [target_vars] if isinstance(target_vars, Variable) else list(target_vars or ())
    if not all(isinstance(name, str) for name in feeds):
        raise ValueError(f"'feed_var_names' should be a list of str, but it is {feeds}")
    if not targets or not all(isinstance(var, Variable) for var in targets):
        raise ValueError(f"'target_vars' should be a list of Variable, but it is {targets}")
    program = program_to_save(main_program)
    folder = Path(dirname)
    files: list[tuple[Path, Write]] = []
    with as_trained_alone(program, parameters_only=True) as trained:
        if not export_for_deployment:
            _log.warning("export_for_deployment=False: the program is saved with its training part")
            files.append((folder / (model_filename or "__model__.main_program"), _writer(trained)))
        pruned, outputs = inference_program(trained, feeds, [var.name for var in targets])
        files.append((folder / (model_filename or "__model__"), _writer(pruned)))
        if not program_only:
            kept = [var for var in pruned.list_vars() if is_persistable(var)]
            files += writing(folder, kept, params_filename)
        write_files(files)
    return outputs


def inference_program(
    program: Program, feeds: Sequence[str], targets: Sequence[str]
) -> tuple[Program, list[str]]:
    """The part of a program that computes `targets`, with `feed` and `fetch` operators.

    Beside it the names of what is fetched. The program given is left as it is.
    """
    pruned = prune(program.clone(for_test=True), targets, feeds)
    require_whole(pruned.list_vars())
    outputs = [_named_output(pruned, name, index) for index, name in enumerate(targets)]
    prepend_feed_ops(pruned, feeds)
    append_fetch_ops(pruned, outputs)
    return pruned, outputs


def _writer(program: Program) -> Write:
    return lambda file: file.write(program.serialize_to_string())


def _named_output(program: Program, name: str, index: int) -> str:
    """Gives a fetched variable the name that Fluid's saved models have."""
    block = program.global_block()
    source = block.var_recursive(name)
    output = f"save_infer_model/scale_{index}.tmp_0"
    block.create_var(
        name=output, dtype=source.dtype, shape=source.shape, lod_level=source.lod_level
    )
    attrs = {"scale": 1.0, "bias": 0.0, "bias_after_scale": True}
    apply("scale", {"X": name}, {"Out": output}, attrs, block=block)
    return output


def load_inference_model(
    dirname: str | Path | None,
    executor: Any,
    model_filename: str | bytes | None = None,
    params_filename: str | bytes | None = None,
    pserver_endpoints: Any = None,
) -> list[Any]:
    """Loads what `save_inference_model` saved into the current scope.

    dirname: None where `model_filename` and `params_filename` are the contents of the two files.
    pserver_endpoints: addresses of the servers that hold tables, for the operators that look up
    there. Returns `[program, names of the variables to feed, variables to fetch]`.
    Raises ValueError for a missing folder, EnforceNotMet for missing or damaged files.
    """
    program = _program(dirname, model_filename)
    for op in _looking_up(program) if pserver_endpoints else ():
        op.set_attr("epmap", list(pserver_endpoints))
    feeds, fetches = ends(program, "feed"), ends(program, "fetch")
    persistables = [var for var in program.list_vars() if is_persistable(var)]
    if persistables or dirname is not None:
        load_vars(executor, dirname, program, vars=persistables, filename=params_filename)
    return [program, [var.name for var in feeds], fetches]


def _looking_up(program: Program) -> list[Operator]:
    """The operators that ask servers for rows of their table."""
    ops = (op for block in program.blocks for op in block.ops)
    return [op for op in ops if op.has_attr("epmap")]


def _program(folder: str | Path | None, file: str | bytes | None) -> Program:
    """The program of a file in the folder, or of the content of one."""
    if folder is None and isinstance(file, bytes):
        return Program.parse_from_string(file)
    if folder is None:
        raise ValueError("without a folder the content of a file is needed, as bytes")
    if not Path(folder).is_dir():
        raise ValueError(f"There is no directory named {str(folder)!r}")
    return read_program(Path(folder) / (str(file) if file else "__model__"))


def read_program(path: Path) -> Program:
    """The program of a file; EnforceNotMet where it is missing or damaged."""
    data = bytes(map_file(path))
    try:
        return Program.parse_from_string(data)
    except EnforceNotMet as error:
        raise EnforceNotMet(f"{path}: {error}") from error


def ends(program: Program, kind: str) -> list[Variable]:
    """The variables that are fed or fetched, in the order of their columns."""
    block, found = program.global_block(), []
    for op in block.ops:
        if op.type == kind:
            names = op.output("Out") if kind == "feed" else op.input("X")
            column = op.attr("col")
            if len(names) != 1 or not isinstance(column, int) or not block.has_var(names[0]):
                raise EnforceNotMet(f"the saved program is damaged: one of its operators is {op}")
            found.append((column, names[0]))
    return [block.var(name) for _, name in sorted(found)]

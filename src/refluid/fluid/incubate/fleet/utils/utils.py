"""`fluid.incubate.fleet.utils.utils`: program files; whether pruned programs fit their models."""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from refluid.core.errors import EnforceNotMet
from refluid.fluid import debugger
from refluid.fluid.proto import framework_pb2
from refluid.ir.block import Block
from refluid.ir.program import Program

__all__ = [
    "check_pruned_program_vars",
    "graphviz",
    "load_program",
    "parse_program",
    "program_type_trans",
    "save_program",
]
_LOGGER = logging.getLogger("refluid")
persistable_vars_out_fn = "vars_persistable.log"
all_vars_out_fn = "vars_all.log"
ops_out_fn = "ops.log"
not_expected_op_types = ["lookup_table"]
_FEEDS = ("feed", "fetch")


def load_program_binary(model_filename: str) -> Program:
    """The program of a file as `save_inference_model` writes it. EnforceNotMet for other files."""
    return Program.parse_from_string(Path(model_filename).read_bytes())


def load_program_text(model_filename: str) -> Program:
    """The program of a file in protobuf's text format. EnforceNotMet for other files."""
    try:
        found = text_format.Parse(Path(model_filename).read_text(), framework_pb2.ProgramDesc())
    except (UnicodeDecodeError, text_format.ParseError) as error:
        raise EnforceNotMet(f"{model_filename} has no program as text: {error}") from error
    return Program.parse_from_string(found.SerializeToString())


def load_program(model_filename: str, is_text: bool = False) -> Program:
    """The program of a file, binary or text."""
    return (load_program_text if is_text else load_program_binary)(model_filename)


def save_program(
    program: Program, model_filename: str = "__model__", is_text: bool = False
) -> None:
    """Writes a program to a file, binary or as protobuf's text format.

    Paddle writes as text what `str(program)` gives, which nothing reads.
    """
    raw = program.desc.serialize_to_string()
    if is_text:
        Path(model_filename).write_text(str(framework_pb2.ProgramDesc.FromString(raw)))
    else:
        Path(model_filename).write_bytes(raw)


def program_type_trans(prog_dir: str, prog_fn: str, is_text: bool) -> str:
    """Writes a program's file in the other format beside it; that file's name."""
    other = f"{prog_fn}.{'bin' if is_text else 'pbtxt'}"
    program = load_program(str(Path(prog_dir) / prog_fn), is_text)
    save_program(program, str(Path(prog_dir) / other), not is_text)
    return other


def parse_program(program: Program, output_dir: str) -> None:
    """Writes a line for each variable and operator of the first block to files in a folder.

    They are vars_persistable.log, vars_all.log and ops.log.
    """
    block = program.global_block()
    every = [one for one in block.vars.values() if one.name not in _FEEDS]
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    kept = [_told(one) | {"type": str(one.type)} for one in every if one.persistable]
    _list(folder / persistable_vars_out_fn, "persistable vars", kept)
    _list(folder / all_vars_out_fn, "all vars", map(_told, every))
    ops = [
        {
            "type": op.type,
            "input_arg_names": str(op.input_arg_names),
            "output_arg_names": str(op.output_arg_names),
        }
        for op in block.ops
    ]
    _list(folder / ops_out_fn, "ops", ops)


def _told(var: Any) -> dict[str, Any]:
    return {
        "name": var.name,
        "shape": str(tuple(var.shape)),
        "lod_level": var.lod_level,
        "dtype": str(var.dtype),
    }


def _list(path: Path, title: str, rows: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(f"{line}\n" for line in [f"{title}:", *rows]))


def check_pruned_program_vars(train_prog: Program, pruned_prog: Program) -> bool:
    """Whether the model trained has all persistable variables of a pruned program, as they are.

    The log says which are missing or of another shape or type. (Paddle's answers True for those
    that are missing.)
    """
    fits, known = True, train_prog.global_block()
    for var in pruned_prog.global_block().vars.values():
        if not var.persistable or var.name in _FEEDS:
            continue
        other = known.vars.get(var.name)
        if other is None:
            _LOGGER.error("the program of training has no variable %s", var.name)
        elif (other.shape, other.dtype) != (var.shape, var.dtype):
            _LOGGER.error(
                "%s is %s %s in the pruned program, and %s %s in that of training",
                var.name, tuple(var.shape), var.dtype, tuple(other.shape), other.dtype,
            )  # fmt: skip
        else:
            continue
        fits = False
    return fits


def check_not_expected_ops(prog: Program) -> None:
    """The log tells of operators that a program which predicts shouldn't have."""
    for op in prog.global_block().ops:
        if op.type in not_expected_op_types:
            _LOGGER.warning("the program has operator %s", op.type)


def graphviz(block: Block, output_dir: str = "", filename: str = "debug") -> None:
    """Writes the block's graph to FILENAME.dot, and to FILENAME.pdf where Graphviz is installed."""
    drawn = Path(output_dir) / f"{filename}.dot"
    debugger.draw_block_graphviz(block, path=str(drawn))
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tpdf", drawn, "-o", drawn.with_suffix(".pdf")], check=True)
    else:
        _LOGGER.info("%s isn't drawn: there is no command dot (Graphviz)", drawn)

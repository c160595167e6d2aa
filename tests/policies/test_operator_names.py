"""What is known of an operator stands in its decorator: nobody else has tables of names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from refluid.ops.registry import find

SOURCE = Path(__file__).resolve().parents[2] / "src" / "refluid"
ROOMS = ("analysis", "autodiff", "passes", "runtime", "engine")
# The only names that files of these rooms may say, with the reason. The list only gets shorter:
# a fact about an operator belongs into its decorator (`ops/facts.py`), where all can ask for it.
INSERTED = "puts these into programs"
WRITTEN = "writes these into a plan as Python"
PATTERN = "replaces these by one that is faster"
ALLOWED: list[tuple[str, str, str]] = [
    # file, operators, reason
    ("autodiff/accumulation.py", "sum", INSERTED),
    ("autodiff/backward.py", "fill_any_like fill_constant shape", INSERTED),
    ("autodiff/gradients.py", "assign fill_constant shape", INSERTED),
    ("autodiff/making.py", "fill_zeros_like", INSERTED),
    ("autodiff/recompute.py", "seed", INSERTED),
    ("engine/notices.py", "adam momentum sgd", "those that Fluid's log speaks of"),
    ("passes/chosen_gradients.py", "chosen_all_reduce scale", INSERTED),
    (
        "passes/data_parallel.py",
        "allreduce fill_constant fused_all_reduce replica_barrier replica_broadcast",
        INSERTED,
    ),
    ("passes/fuse_elewise_add_act.py", "elementwise_add", "says so in an attribute, as Fluid does"),
    ("passes/fuse_gemm_epilogue.py", "matmul mul", PATTERN),
    (
        "passes/gradient_merge.py",
        "conditional_block fill_constant greater_equal increment scale shape sum",
        INSERTED,
    ),
    ("passes/mix_large_products.py", "fused_gemm_epilogue mul", PATTERN),
    ("passes/mixed_precision.py", "cast", INSERTED),
    ("passes/pipeline_stages.py", "pause", INSERTED),
    ("passes/sharded_parameters.py", "shard_gather", INSERTED),
    ("passes/sharding.py", "shard_reduce shard_spread", INSERTED),
    ("passes/time_steps/__init__.py", "recurrent", PATTERN),
    ("passes/time_steps/hoisting.py", "mul", INSERTED),
    ("passes/time_steps/joined.py", "concat concat_grad mul mul_grad slice sum", INSERTED),
    ("passes/time_steps/loop.py", "recurrent recurrent_grad", PATTERN),
    (
        "passes/time_steps/sinking.py",
        "elementwise_add mul_grad reduce_sum squeeze sum transpose",
        INSERTED,
    ),
    (
        "runtime/control.py",
        "conditional_block conditional_block_grad conditional_block_infer lod_array_length "
        "pause read_from_array select_output write_to_array",
        WRITTEN,
    ),
    ("runtime/loops.py", "while while_grad", WRITTEN),
    ("runtime/readers.py", "create_double_buffer_reader create_py_reader read", WRITTEN),
    ("runtime/recurrence.py", "recurrent recurrent_grad", WRITTEN),
    ("runtime/writing.py", "feed fetch", "are a plan's arguments and results"),
]
# Words that are no operators where they stand.
WORDS: list[tuple[str, str, str]] = [
    ("engine/dataset_training.py", "read", "a word of the log"),
    ("engine/pipeline.py", "sync_batch_norm", "a pass"),
    ("passes/fuse_attention.py", "scale softmax", "an attribute; a part of the pattern"),
    ("passes/fuse_bn_act.py", "norm", "a part of the pattern"),
    ("passes/fuse_softmax_cross_entropy.py", "softmax", "a part of the pattern"),
    ("passes/fuse_squared_norm.py", "reduce_all", "an attribute"),
    ("passes/update_mixed_by_tiles.py", "inverse scale", "parts of the pattern"),
    ("runtime/batched/differing.py", "load sum", "kinds of lines"),
    ("runtime/batched/lines.py", "load sum", "kinds of lines"),
    ("runtime/batched/text.py", "load sum", "a kind of lines; a method of tensors"),
    ("runtime/batched/rules.py", "addmm bmm sum transpose", "torch's kernels"),
    ("runtime/batched/values.py", "flatten stack transpose unbind", "methods of tensors"),
    (
        "runtime/inlined/calls.py",
        "allclose bincount equal flatten one_hot repeat_interleave shape size split squeeze "
        "unbind unique unique_consecutive where",
        "torch's functions",
    ),
    ("runtime/inlined/lengths.py", "mul", "a method of numbers"),
    ("runtime/inlined/sequences.py", "real", "an attribute"),
    (
        "runtime/inlined/shapes.py",
        "addmm expand flatten gather index_select mean reshape squeeze sum transpose unsqueeze",
        "torch's functions",
    ),
    ("runtime/inlined/trace.py", "expand reshape", "torch's functions"),
    ("runtime/printing.py", "while", "a word of Python"),
    ("runtime/recorded/last_uses.py", "mul", "torch's kernels"),
    ("runtime/recorded/trace.py", "equal", "a method of tensors"),
    ("runtime/recurrence.py", "reverse unbind", "an attribute; a method of tensors"),
]


def files() -> list[Path]:
    return sorted(path for room in ROOMS for path in (SOURCE / room).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def named(source: str) -> Iterator[str]:
    """Operators that a file's texts name: one text each, or several in one (`"relu tanh"`)."""
    tree = ast.parse(source)
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            words = node.value.split()
            if all(find(word) is not None for word in words):
                yield from words


def allowed_in(name: str) -> set[str]:
    return {word for file, words, _ in ALLOWED + WORDS if file == name for word in words.split()}


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_no_names_of_operators(path: Path) -> None:
    found = set(named(path.read_text(encoding="utf-8")))
    extra = found - allowed_in(name_of(path))
    assert not extra, f"{sorted(extra)}: give the operators a fact, and ask for that"
    gone = allowed_in(name_of(path)) - found
    assert not gone, f"{sorted(gone)}: take these out of the list"


def test_what_is_allowed_is_there() -> None:
    known = set(map(name_of, files()))
    assert {file for file, _, _ in ALLOWED + WORDS} <= known, "take these files out of the list"


def test_tables_are_found() -> None:
    source = '"""relu"""\nTABLE = {"relu": 1, "no operator": 2}\nOTHERS = "tanh gelu".split()\n'
    assert sorted(named(source)) == ["gelu", "relu", "tanh"]

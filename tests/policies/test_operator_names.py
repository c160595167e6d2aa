"""What is known of an operator stands in its decorator: nobody else has tables of names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from refluid.ops.registry import find

SOURCE = Path(__file__).resolve().parents[2] / "src" / "refluid"
ROOMS = ("analysis", "autodiff", "passes", "runtime", "engine")
# What these rooms themselves put into programs, or write into a plan. The lists only get shorter:
# a fact about an operator belongs into its decorator (`ops/facts.py`), where all can ask for it.
INSERTED = {
    *("allreduce", "fused_all_reduce", "replica_barrier", "replica_broadcast"),
    *("assign", "cast", "concat", "fill_constant", "fill_zeros_like", "scale", "shape", "slice"),
    *("greater_equal", "increment", "mul", "mul_grad", "reduce_sum", "seed", "sum"),
}
WRITTEN = {
    *("feed", "fetch", "create_py_reader", "create_double_buffer_reader", "read"),
    *("conditional_block", "conditional_block_infer", "conditional_block_grad", "select_output"),
    *("while", "while_grad", "recurrent", "recurrent_grad"),
    *("write_to_array", "read_from_array", "lod_array_length"),
}
# What a file matches beside its patterns, or says in words that mean no operator.
OWN = {
    "engine/feeds.py": {"reshape2"},  # how npair_loss makes a column of labels
    "engine/notices.py": {"adam", "momentum", "sgd"},  # whose updates Fluid fuses
    "engine/pipeline.py": {"sync_batch_norm"},  # a pass
    "passes/fuse_bn_act.py": {"norm"},  # a part of the pattern
    "passes/fuse_elewise_add_act.py": {"elementwise_add"},  # a functor's name
    "passes/fuse_gemm_epilogue.py": {"matmul"},  # one of two products in the pattern
    "passes/fuse_softmax_cross_entropy.py": {"softmax"},  # a part of the pattern
    "passes/time_steps/sinking.py": {"elementwise_add"},  # a bias
    "runtime/joined/differing.py": {"load"},  # kinds of lines
    "runtime/joined/lines.py": {"load"},
    "runtime/joined/text.py": {"load"},
    "runtime/joined/values.py": {"flatten", "stack", "transpose", "unbind"},  # methods of tensors
    "runtime/recorded/trace.py": {"equal"},  # a method of tensors
    "runtime/recurrence.py": {"reverse", "unbind"},  # an attribute, and a method of tensors
    "runtime/joined/rules.py": {"addmm", "bmm", "transpose"},  # torch's kernels
}


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


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_no_names_of_operators(path: Path) -> None:
    allowed = INSERTED | WRITTEN | OWN.get(name_of(path), set())
    found = set(named(path.read_text(encoding="utf-8"))) - allowed
    assert not found, f"{sorted(found)}: give the operators a fact, and ask for that"


def test_what_is_allowed_is_used() -> None:
    used = {name_of(path): set(named(path.read_text(encoding="utf-8"))) for path in files()}
    assert not (INSERTED | WRITTEN) - set().union(*used.values()), "take these out of the list"
    assert all(words <= used[name] for name, words in OWN.items()), "take these out of the list"


def test_tables_are_found() -> None:
    source = '"""relu"""\nTABLE = {"relu": 1, "no operator": 2}\nOTHERS = "tanh gelu".split()\n'
    assert sorted(named(source)) == ["gelu", "relu", "tanh"]

"""Damaged programs are refused by one clear error, or run; nothing else ever happens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import refluid.fluid as fluid
from refluid.core import codec
from refluid.core.errors import EnforceNotMet
from refluid.core.pickles import load_state_bytes
from refluid.core.selected_rows import SelectedRows
from refluid.ir import framework_pb2 as pb
from refluid.ir.program import Program
from tests.choices import often
from tests.golden import GOLDEN, needs_golden, recorded_models
from tests.ir.mutations import is_clear, mutated

FORMATS = GOLDEN / "formats"
ROOT = Path(__file__).resolve().parents[2]
QUICK = ("simnet_cnn", "book_mnist_cnn")
# Of every kind of network: sequences, loops, branches, sparse tables, normalisation, detection.
ALL = [
    *("book_machine_translation", "book_recommender", "book_resnet_cifar10", "book_word2vec"),
    *("chinese_ner", "deepfm", "gru4rec", "lac", "lm_basic_lstm", "mobilenet_ssd"),
    *("ocr_crnn_ctc", "quora_decatt", "seq2seq_attention", "simnet_gru", "textclass_cnn"),
    "transformer",
]


def runs(model: str, first: int, count: int) -> None:
    script = ["-m", "tests.ir.mutation_runs", str(GOLDEN / "zoo" / model), str(first), str(count)]
    path = os.pathsep.join([str(Path(fluid.__file__).parents[2]), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *script],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )
    print(done.stdout[-500:])
    assert done.returncode == 0, (model, done.returncode, done.stdout[-3000:], done.stderr[-3000:])


@needs_golden
@pytest.mark.parametrize("model", often(QUICK, ["book_mnist_cnn"]))
def test_damaged_programs_are_refused_or_run(model: str) -> None:
    runs(model, 0, 100)


@needs_golden
@pytest.mark.slow
@pytest.mark.parametrize("model", [*QUICK, *ALL])
def test_many_damaged_programs(model: str) -> None:
    runs(model, 1000, 400)


def reads(data: bytes) -> bool:
    """Whether the bytes are a program, which then prints, copies and writes itself."""
    try:
        program = Program.parse_from_string(data)
    except EnforceNotMet:
        return False
    str(program)
    again = program.clone().serialize_to_string()
    assert Program.parse_from_string(again).serialize_to_string() == again
    return True


def check_reading(model: str, first: int, count: int) -> None:
    data = (GOLDEN / "zoo" / model / "main.pb").read_bytes()
    found = {True: 0, False: 0}
    for seed in range(first, first + count):
        try:
            found[reads(mutated(data, seed))] += 1
        except Exception as error:
            error.add_note(f"{model}, seed {seed}")
            raise
    assert min(found.values()) > count // 20


@needs_golden
@pytest.mark.parametrize("model", often(QUICK, ["simnet_cnn"]))
def test_reading_damaged_programs(model: str) -> None:
    check_reading(model, 0, 300)


@needs_golden
@pytest.mark.slow
@pytest.mark.parametrize("model", recorded_models())
def test_reading_many_damaged_programs(model: str) -> None:
    if not (GOLDEN / "zoo" / model / "main.pb").is_file():
        pytest.skip("its program is packed")
    check_reading(model, 5000, 200)


@needs_golden
def test_damaged_models_and_parameters(tmp_path: Path) -> None:
    """Each file of a saved model damaged in turn: what is loaded runs, or one error says why."""
    original = {path.name: path.read_bytes() for path in (FORMATS / "infer").iterdir()}
    for name, data in original.items():
        (tmp_path / name).write_bytes(data)
    exe = fluid.Executor()
    for seed in range(200):
        name = sorted(original)[seed % len(original)]
        (tmp_path / name).write_bytes(mutated(original[name], seed))
        with fluid.scope_guard(fluid.Scope()):
            try:
                fluid.io.load_inference_model(tmp_path, exe)
            except Exception as error:
                assert is_clear(error), (seed, name, error)
        (tmp_path / name).write_bytes(original[name])


@needs_golden
def test_damaged_values() -> None:
    weight = (FORMATS / "params" / "fc1.w_0").read_bytes()
    state = (FORMATS / "fluid_save" / "model.pdopt").read_bytes()
    rows = codec.encode_selected_rows(SelectedRows(torch.tensor([1, 5]), 9, torch.rand(2, 3)))
    readers = {
        codec.decode_lod_tensor: weight,
        codec.decode_selected_rows: rows,
        load_state_bytes: state,
    }
    for read, data in readers.items():
        for seed in range(300):
            try:
                read(mutated(data, seed))
            except Exception as error:
                assert is_clear(error), (read, seed, error)


def _program() -> pb.ProgramDesc:
    message = pb.ProgramDesc()
    block = message.blocks.add(idx=0, parent_idx=-1)
    op = block.ops.add(type="scale")
    op.attrs.add(name="op_role", type=0, i=0)
    return message


def test_the_place_of_the_damage_is_named() -> None:
    damages = {
        r"block 0: its number is 3": lambda one: setattr(one.blocks[0], "idx", 3),
        r"block 0: it is inside of block 7": lambda one: setattr(one.blocks[0], "parent_idx", 7),
        r"block 1: its forward block is 9": lambda one: one.blocks.add(
            idx=1, parent_idx=0, forward_block_idx=9
        ),
        r"block 0, operator 0 \('scale'\): attribute 'sub_block' is block 4 of 1": lambda one: (
            one.blocks[0].ops[0].attrs.add(name="sub_block", type=8, block_idx=4)
        ),
        r"block 0, operator 0 \('scale'\): attribute 'op_role' is a STRING": lambda one: (
            one.blocks[0].ops[0].attrs.add(name="op_role", type=2, s="x")
        ),
    }
    for message, damage in damages.items():
        program = _program()
        damage(program)
        with pytest.raises(EnforceNotMet, match=message):
            Program.parse_from_string(program.SerializeToString())

"""Tensor files: Fluid's own decode and encode to the same bytes; damaged ones are refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refluid.core.codec import (
    decode_lod_tensor,
    decode_selected_rows,
    encode_lod_tensor,
    encode_selected_rows,
)
from refluid.core.errors import EnforceNotMet
from refluid.core.files import (
    decode_combined_file,
    decode_file,
    decode_selected_rows_file,
)
from refluid.core.values import LoDTensor, SelectedRows
from tests.golden import GOLDEN, needs_golden

FORMATS = GOLDEN / "formats"
FOLDERS = ("persistables", "params", "infer", "vars")
COMBINED = {"persistables": "all", "params": "params", "infer": "params"}


def expected(path: str = "expected.json") -> Any:
    return json.loads((FORMATS / path).read_text())


def names_in(folder: str) -> list[str]:
    found = (path.name for path in (FORMATS / folder).glob("*"))
    return sorted(name for name in found if name != "__model__")


def assert_is(value: LoDTensor, fact: Any) -> None:
    array = np.array(value)
    assert array.dtype == fact.get("dtype", array.dtype)
    assert value.shape() == fact["shape"]
    assert array.ravel().astype("f8").tolist() == fact["values"]


@needs_golden
@pytest.mark.parametrize("folder", FOLDERS)
def test_files_of_one_variable(folder: str) -> None:
    facts = expected()["vars"]
    for name in names_in(folder):
        path = FORMATS / folder / name
        value = decode_file(path)
        assert_is(value, facts[name])
        assert encode_lod_tensor(value.tensor, value.lod()) == path.read_bytes()


@needs_golden
@pytest.mark.parametrize("folder", COMBINED)
def test_combined_files(folder: str) -> None:
    facts = expected()["vars"]
    path = FORMATS / f"{folder}_combined" / COMBINED[folder]
    values = decode_combined_file(path, names_in(folder))
    for name, value in values.items():
        assert_is(value, facts[name])
    assert b"".join(encode_lod_tensor(v.tensor, v.lod()) for v in values.values()) == (
        path.read_bytes()
    )
    with pytest.raises(EnforceNotMet, match="bytes follow"):
        decode_combined_file(path, names_in(folder)[:-1])
    with pytest.raises(EnforceNotMet, match="variable zzz"):
        decode_combined_file(path, [*names_in(folder), "zzz"])


@needs_golden
def test_every_element_type_and_lod() -> None:
    for name, fact in expected("dtypes/expected.json").items():
        if name == "selected_rows":
            continue
        path = FORMATS / "dtypes" / name
        value = decode_file(path)
        assert_is(value, fact)
        assert value.lod() == fact.get("lod_offsets", [])
        assert encode_lod_tensor(value.tensor, value.lod()) == path.read_bytes()


@needs_golden
def test_selected_rows_file() -> None:
    path = FORMATS / "dtypes" / "selected_rows"
    fact = expected("dtypes/expected.json")["selected_rows"]
    value = decode_selected_rows_file(path)
    assert (value.rows(), value.height()) == (fact["rows"], fact["height"])
    assert_is(value.get_tensor(), fact)
    assert encode_selected_rows(value) == path.read_bytes()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([[True, False]]),
        torch.tensor([1, 255], dtype=torch.uint8),
        torch.tensor([1.5, -2], dtype=torch.bfloat16),
        torch.zeros(0, 7),
        torch.tensor(3.0),
        torch.arange(12.0).reshape(3, 4).T,
        torch.ones(300, 2, requires_grad=True),
    ],
)
def test_there_and_back(tensor: torch.Tensor) -> None:
    data = b"lead" + encode_lod_tensor(tensor) + b"tail"
    value, end = decode_lod_tensor(data, 4)
    assert end == len(data) - 4
    assert value.tensor.dtype == tensor.dtype
    assert torch.equal(value.tensor, tensor)
    value.tensor.zero_()  # the result owns its memory


def small() -> bytes:
    return encode_lod_tensor(torch.arange(6.0).reshape(3, 2), [[0, 1, 2], [0, 1, 3]])


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w"
    for whole, decode in (
        (small(), decode_file),
        (encode_selected_rows(SelectedRows([1], 2, torch.ones(1, 2))), decode_selected_rows_file),
    ):
        path.write_bytes(whole)
        decode(path)
        for size in range(len(whole)):
            path.write_bytes(whole[:size])
            with pytest.raises(EnforceNotMet, match=rf"{path}.* at byte \d+: .* \d+ are left"):
                decode(path)


def with_header(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<IQIi", 0, 0, 0, len(header)) + header + data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\1" + small()[1:], "expected version 0 of a LoDTensor but found 1"),
        (struct.pack("<IQ", 0, 1 << 62), "LoD level 0 should take 8 bytes"),
        (struct.pack("<IQQ", 0, 1, 1 << 62), "LoD level 0 should take"),
        (struct.pack("<IQQ", 0, 1, 7), "no multiple of 8"),
        (struct.pack("<IQIi", 0, 0, 7, 0), "expected version 0 of a tensor"),
        (struct.pack("<IQIi", 0, 0, 0, -5), "should take -5 bytes"),
        (with_header(b""), "no element type"),
        (with_header(b"\x08\x07"), "7 is no element type"),
        (with_header(b"\x08\x05\x10"), "ends within a number"),
        (with_header(b"\x08\x05\x10" + b"\xff" * 11), "more than ten bytes"),
        (with_header(b"\x08\x05\x10" + b"\xff" * 9 + b"\x01"), "sizes are negative"),
        (with_header(b"\x08\x05\x1a\x00"), "field tag 0x1a"),
        (with_header(b"\x08\x05\x12\x09\x01"), "field tag 0x12"),
        (with_header(b"\x08\x05" + (b"\x10" + b"\xff" * 8 + b"\x7f") * 2), "bytes but 0 are left"),
        (small()[:20] + struct.pack("<Q", 5) + small()[28:], "must start at 0"),
    ],
)
def test_damage_is_refused_before_allocating(data: bytes, message: str) -> None:
    with pytest.raises(EnforceNotMet, match=message):
        decode_lod_tensor(data)


def test_packed_sizes_are_read_too() -> None:
    value, _ = decode_lod_tensor(with_header(b"\x08\x05\x12\x02\x01\x02", b"\0" * 8))
    assert value.shape() == [1, 2]


def test_rows_and_values_must_agree() -> None:
    data = bytearray(encode_selected_rows(SelectedRows([1, 2], 3, torch.ones(2, 2))))
    data[4:12] = struct.pack("<Q", 1)
    del data[12:20]
    with pytest.raises(EnforceNotMet, match="1 row numbers but 2 rows"):
        decode_selected_rows(data)

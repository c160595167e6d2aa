"""`refluid run --log-dir`: the file is TensorBoard's, and says what steps did."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refluid.cli.tensorboard_file import ScalarFile, _masked
from tests.started import refluid

SCRIPT = """\
import numpy as np
import paddle.fluid as fluid
x = fluid.data("x", [None, 4])
loss = fluid.layers.mean(fluid.layers.fc(x, 3), name="loss")
fluid.optimizer.SGD(0.1).minimize(loss)
exe = fluid.Executor()
exe.run(fluid.default_startup_program())
for step in range(30):
    exe.run(feed={"x": np.ones((2, 4), "float32")}, fetch_list=[loss])
print("as ever")
"""


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Those of a message, read the plain way."""
    while data:
        key, data = number(data)
        kind = key & 7
        if kind == 0:
            value, data = number(data)
        elif kind == 1:
            value, data = struct.unpack("<d", data[:8])[0], data[8:]
        elif kind == 5:
            value, data = struct.unpack("<f", data[:4])[0], data[4:]
        else:
            length, data = number(data)
            value, data = data[:length], data[length:]
        yield key >> 3, value


def number(data: bytes) -> tuple[int, bytes]:
    found = shift = 0
    for place, byte in enumerate(data):
        found |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return found, data[place + 1 :]
    raise AssertionError("no end")


def scalars(folder: Path) -> list[tuple[int, dict[str, float]]]:
    (path,) = folder.glob("events.out.tfevents.*")
    data, found = path.read_bytes(), []
    while data:
        length = struct.unpack("<Q", data[:8])[0]
        assert data[8:12] == _masked(data[:8])
        event, check = data[12 : 12 + length], data[12 + length : 16 + length]
        assert check == _masked(event)
        data = data[16 + length :]
        parts = dict(fields(event))
        if 5 in parts:
            values = [dict(fields(value)) for _, value in fields(parts[5])]
            found.append((parts.get(2, 0), {one[1].decode(): one[2] for one in values}))
    return found


def test_checksums() -> None:
    # The CRC-32C of these digits is E3069283.
    crc = 0xE3069283
    expected = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert _masked(b"123456789") == struct.pack("<I", expected)


def test_what_is_added_is_read_again(tmp_path: Path) -> None:
    file = ScalarFile(tmp_path)
    file.add(3, {"a": 1.5, "b/c": -2.0})
    file.add(70000, {"a": 0.25})
    file.close()
    assert scalars(tmp_path) == [(3, {"a": 1.5, "b/c": -2.0}), (70000, {"a": 0.25})]


def test_tensorboard_reads_it(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    file = ScalarFile(tmp_path)
    file.add(3, {"a": 1.5})
    file.add(9, {"a": 2.5})
    file.close()
    read = accumulator.EventAccumulator(str(tmp_path))
    read.Reload()
    assert [(one.step, one.value) for one in read.Scalars("a")] == [(3, 1.5), (9, 2.5)]


def test_a_run_is_logged(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    ran = refluid("run", "--log-dir", "logs", "train.py", folder=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "as ever\n"), ran.stderr
    found = scalars(tmp_path / "logs")
    step, values = found[-1]
    assert step == 30
    assert {name.split("/")[1] for name in values} >= {"run ms", "between runs ms", "resident MB"}
    losses = [value for name, value in values.items() if "loss" in name or "mean" in name]
    assert len(losses) == 1 and -100 < losses[0] < 100
    assert all(value >= 0 for name, value in values.items() if name.endswith("ms"))

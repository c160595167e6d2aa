"""Flags: Fluid's names and defaults, typed values, and no knob silently ignored."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import refluid
from refluid.core import flags
from refluid.core.flag_table import FLAGS, Status
from tests.golden import GOLDEN, needs_golden

SOURCE = Path(refluid.__path__[0])


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test starts from the defaults and has said nothing yet."""
    monkeypatch.setattr(flags, "_values", {name: flag.default for name, flag in FLAGS.items()})
    monkeypatch.setattr(flags, "_said", set())
    monkeypatch.setattr(flags, "_set", set())
    monkeypatch.setattr(flags, "_states", {})
    monkeypatch.setattr(flags, "_state", 0)
    flags.set_flags({})
    yield


@needs_golden
def test_every_flag_of_fluid_is_known() -> None:
    surface = json.loads((GOLDEN / "api_surface.json").read_text())
    for name, default in surface["flags"].items():
        assert flags.get_flags(name) == {name: default}
        assert type(flags.get_flags(name)[name]) is type(default)
    assert set(surface["env_flags"]) <= set(FLAGS)
    kinds = {"bool": bool, "int32": int, "int64": int, "uint64": int, "double": float}
    for name, facts in surface["gflags"].items():
        if facts["file"].startswith("paddle/"):
            assert FLAGS[name].kind is kinds.get(facts["type"], str)
            assert FLAGS[name].default == flags._parse(FLAGS[name], facts["default"])
            assert (FLAGS[name].minimum == 0) == (facts["type"] == "uint64"), name


def test_a_flag_is_effective_exactly_if_something_reads_it() -> None:
    used = set()
    for path in SOURCE.rglob("*.py"):
        used |= set(re.findall(r'(?:flags\.|bool\()value\(\s*"(\w+)"\s*\)', path.read_text()))
    assert used == {name for name, flag in FLAGS.items() if flag.status is Status.EFFECTIVE}


def test_environment_is_read_here_only() -> None:
    for path in SOURCE.rglob("*.py"):
        if path.name != "flags.py":
            assert not re.search(r"os\.(environ|getenv)", path.read_text()), path


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("FLAGS_check_nan_inf", 1, True),
        ("FLAGS_check_nan_inf", np.bool_(True), True),
        ("FLAGS_eager_delete_tensor_gb", 2, 2.0),
        ("FLAGS_eager_delete_tensor_gb", np.float64(0.5), 0.5),
        ("FLAGS_paddle_num_threads", np.int64(4), 4),
        ("FLAGS_allocator_strategy", "naive_best_fit", "naive_best_fit"),
    ],
)
def test_set_and_get(name: str, given: Any, expected: Any) -> None:
    flags.set_flags({name: given})
    assert flags.get_flags([name]) == {name: expected}
    assert type(flags.value(name.removeprefix("FLAGS_"))) is not np.bool_


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"FLAGS_check_nan_in": True}, ValueError, "did you mean FLAGS_check_nan_inf"),
        ({"check_nan_inf": True}, ValueError, "did you mean FLAGS_check_nan_inf"),
        ({"FLAGS_check_nan_inf": "True"}, TypeError, "takes a bool"),
        ({"FLAGS_check_nan_inf": 2}, TypeError, "takes a bool"),
        ({"FLAGS_paddle_num_threads": 1.5}, TypeError, "takes a int"),
        ({"FLAGS_paddle_num_threads": True}, TypeError, "takes a int"),
        ({"FLAGS_eager_delete_tensor_gb": "1"}, TypeError, "takes a float"),
        ({"FLAGS_allocator_strategy": 1}, TypeError, "takes a str"),
        ({"FLAGS_initial_cpu_memory_in_mb": -1}, ValueError, "at least 0"),
        (["FLAGS_check_nan_inf"], TypeError, "takes a dict"),
    ],
)
def test_refused(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        flags.set_flags(given)


def test_all_or_none() -> None:
    with pytest.raises(ValueError, match="no flag"):
        flags.set_flags({"FLAGS_check_nan_inf": True, "FLAGS_nonsense": 1})
    assert flags.value("check_nan_inf") is False


def test_get_refuses() -> None:
    with pytest.raises(TypeError, match="str, list or tuple"):
        flags.get_flags({"FLAGS_benchmark": True})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no flag"):
        flags.get_flags(("FLAGS_benchmark", "x"))


def test_override() -> None:
    with flags.override({"FLAGS_use_mkldnn": True}):
        assert flags.value("use_mkldnn") is True
    assert flags.value("use_mkldnn") is False


def test_no_knob_is_silently_ignored(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    name = next(n for n, f in FLAGS.items() if f.status is Status.NO_COUNTERPART and not f.default)
    with caplog.at_level(logging.WARNING, "refluid"):
        flags.set_flags({f"FLAGS_{name}": FLAGS[name].default})
        assert not caplog.records
        flags.set_flags({"FLAGS_dump_jitcode": True, "FLAGS_cudnn_deterministic": True})
        flags.set_flags({"FLAGS_enable_parallel_graph": True})
        flags.set_flags({"FLAGS_dump_jitcode": True})
    assert [record.args[1] for record in caplog.records if isinstance(record.args, tuple)] == [
        "dump_jitcode",
        "cudnn_deterministic",
        "enable_parallel_graph",
    ]
    assert flags.status_of("cudnn_deterministic") is Status.IGNORED_BY_FLUID


def test_environment(caplog: pytest.LogCaptureFixture) -> None:
    flags.load_environment(
        {
            "FLAGS_check_nan_inf": "1",
            "FLAGS_benchmark": "False",
            "FLAGS_eager_delete_tensor_gb": "-1",
            "FLAGS_rpc_deadlin": "5",
            "PATH": "x",
        }
    )
    assert flags.value("check_nan_inf") is True
    assert flags.value("benchmark") is False
    assert flags.value("eager_delete_tensor_gb") == -1.0
    assert "FLAGS_rpc_deadlin in the environment is ignored" in caplog.text
    assert "did you mean FLAGS_rpc_deadline?" in caplog.text


@pytest.mark.parametrize(("name", "text"), [("check_nan_inf", "yep"), ("rpc_deadline", "1.5")])
def test_unreadable_environment(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"FLAGS_{name}='{text}'"):
        flags.load_environment({f"FLAGS_{name}": text})


def test_environment_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REFLUID_TEST", raising=False)
    assert flags.environment_int("REFLUID_TEST") is None
    assert flags.environment_int("REFLUID_TEST", 2) == 2
    assert flags.environment_str("REFLUID_TEST", "x") == "x"
    monkeypatch.setenv("REFLUID_TEST", " 7 ")
    assert flags.environment_int("REFLUID_TEST") == 7
    assert flags.environment_str("REFLUID_TEST") == "7"
    monkeypatch.setenv("REFLUID_TEST", "seven")
    with pytest.raises(ValueError, match="REFLUID_TEST must be a whole number"):
        flags.environment_int("REFLUID_TEST")


def test_equal_flags_are_the_same_state() -> None:
    before = flags.state()
    with flags.override({}):
        assert flags.state() == before
    within = set()
    for _ in range(2):
        with flags.override({"FLAGS_benchmark": True}):
            within.add(flags.state())
        assert flags.state() == before
    assert len(within) == 1 and before not in within


def test_a_default_that_is_set_is_another_state() -> None:
    before = flags.state()
    assert not flags.was_set("sync_nccl_allreduce")
    with flags.override(flags.get_flags("FLAGS_sync_nccl_allreduce")):
        assert flags.state() != before


def test_a_choice_is_one_of_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"FLAGS_refluid_tier is auto, interpreted, .*'fast'"):
        flags.set_flags({"FLAGS_refluid_tier": "fast"})


def test_the_former_flag_for_right_numbers_says_which_one_there_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    flags.set_flags({"FLAGS_correct_cpu_faults": True})
    assert not caplog.records
    flags.set_flags({"FLAGS_correct_cpu_faults": False})
    assert "FLAGS_refluid_fluid_cpu_faults=1" in caplog.text

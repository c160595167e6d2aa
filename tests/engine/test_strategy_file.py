"""Strategy files: what they may say, and that what they say holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import refluid
from refluid import fluid
from refluid.core import flags
from refluid.engine.choices import NONE, Choices, choose, choosing, chosen, overlaid
from refluid.engine.knobs import KnobScope
from refluid.engine.strategy import DEFAULT, ReduceStrategy
from refluid.engine.strategy_file import WrongStrategy, checked, known, read_strategy, written
from tests import started

ALL = {
    "build": {
        "enable_auto_fusion": True,
        "memory_optimize": True,
        "reduce_strategy": "Reduce",
        "mkldnn_enabled_op_types": ["relu", "conv2d"],
    },
    "execution": {"num_threads": 2},
    "flags": {"FLAGS_refluid_tier": "recorded", "FLAGS_eager_delete_tensor_gb": 0.5},
    "reader": {"capacity": 8, "use_multiprocess": True},
    "precision": {"decorate": True},
    "environment": {"CPU_NUM": 2},
}
# What is wrong, and a part of what is said of it.
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a table": ({"biuld": {}}, "no table [biuld]; did you mean build?"),
    "no table": ({"build": 1}, "build is a table, not 1"),
    "a name": ({"build": {"enable_inplac": True}}, "did you mean enable_inplace?"),
    "a type": ({"build": {"enable_inplace": 1}}, "enable_inplace is bool, not 1"),
    "a number": ({"execution": {"num_threads": -1}}, "num_threads"),
    "too many": ({"execution": {"num_threads": 10**6}}, "num_threads"),
    "true for a number": ({"execution": {"num_threads": True}}, "num_threads is int, not True"),
    "a choice": ({"build": {"reduce_strategy": "Red"}}, "is AllReduce or Reduce, not 'Red'"),
    "a flag's choice": ({"flags": {"FLAGS_refluid_tier": "fast"}}, "compiled, not 'fast'"),
    "a flag's type": ({"flags": {"FLAGS_refluid_tier": 3}}, "[flags] FLAGS_refluid_tier"),
    "no effect": ({"build": {"async_mode": True}}, "changes nothing: the replicas"),
    "the script's": ({"reader": {"drop_last": True}}, "is for the script to say"),
    "other numbers": ({"build": {"sync_batch_norm": True}}, "is for the script to say"),
    "capacity": ({"reader": {"capacity": "8"}}, "capacity is int, not '8'"),
}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    choices = checked(ALL, "a test")
    assert choices.of(KnobScope.BUILD)["reduce_strategy"] is ReduceStrategy.Reduce
    path = tmp_path / "strategy.toml"
    path.write_text(written(choices, "why\nand how"))
    assert path.read_text().startswith("# why\n# and how\n\n[build]\n")
    assert read_strategy(path) == choices


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named(case: tuple[dict[str, Any], str]) -> None:
    tables, said = case
    before = flags.state()
    with pytest.raises(WrongStrategy) as found:
        checked(tables, "file.toml")
    assert str(found.value).startswith("file.toml: ") and said in str(found.value)
    assert flags.state() == before


def test_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "strategy.toml"
    path.write_text("[build\n")
    with pytest.raises(WrongStrategy, match=r"strategy\.toml: not TOML: "):
        read_strategy(path)
    with pytest.raises(OSError, match=r"none\.toml"):
        refluid.apply_strategy(tmp_path / "none.toml")


def test_every_knob_takes_its_default() -> None:
    for section, scope in (("build", KnobScope.BUILD), ("execution", KnobScope.EXECUTION)):
        for knob in known(scope).values():
            if knob.default is not None:
                text = written(Choices({scope: {knob.name: knob.default}}))
                assert f"[{section}]" in text


def test_choices_hold_within_a_block_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", "1")  # which stays 2 after the block
    threads = torch.get_num_threads()
    inside = checked({**ALL, "flags": {"FLAGS_paddle_num_threads": threads + 1}}, "a test")
    with choosing(inside):
        assert overlaid(DEFAULT).enable_auto_fusion and overlaid(DEFAULT).num_threads == 2
        assert overlaid(DEFAULT) is overlaid(DEFAULT)
        assert chosen(KnobScope.READER)["capacity"] == 8
        assert torch.get_num_threads() == threads + 1
        with choosing(NONE):
            assert overlaid(DEFAULT) is DEFAULT
            assert torch.get_num_threads() == threads
        assert torch.get_num_threads() == threads + 1
    assert overlaid(DEFAULT) is DEFAULT and not chosen(KnobScope.READER)
    assert torch.get_num_threads() == threads and not flags.was_set("paddle_num_threads")


def test_flags_of_the_script_stay_set() -> None:
    name = "FLAGS_eager_delete_tensor_gb"
    with flags.override({name: 0.0}):  # for after this test
        with choosing(NONE):
            fluid.set_flags({name: -1.0})
        choose(NONE)
        assert flags.was_set("eager_delete_tensor_gb") and flags.value("eager_delete_tensor_gb") < 0
        with choosing(checked({"flags": {name: 0.5}}, "a test")):
            assert flags.value("eager_delete_tensor_gb") == 0.5
        assert flags.was_set("eager_delete_tensor_gb") and flags.value("eager_delete_tensor_gb") < 0


def trained(steps: int = 6) -> tuple[list[float], fluid.Program]:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 7
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = fluid.data("x", [None, 8]), fluid.data("y", [None, 1], "int64")
        p = fluid.layers.softmax(fluid.layers.fc(fluid.layers.fc(x, 16, act="relu"), 4))
        loss = fluid.layers.mean(fluid.layers.cross_entropy(p, y))
        fluid.optimizer.SGD(0.5).minimize(loss)
    rng = np.random.RandomState(3)
    feed = {"x": rng.rand(16, 8).astype("float32"), "y": rng.randint(0, 4, (16, 1))}
    exe = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        run = fluid.CompiledProgram(main) if steps < 0 else main
        return [float(exe.run(run, feed, [loss])[0]) for _ in range(abs(steps))], main


@pytest.mark.parametrize("steps", [6, -6], ids=["plain", "compiled"])
def test_a_program_is_run_by_what_was_chosen(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from refluid.engine import prepare

    seen = []
    rewrite = prepare.rewrite
    monkeypatch.setattr(
        prepare, "rewrite", lambda *a: [seen.append(one.reports) or one for one in rewrite(*a)]
    )
    expected, _ = trained(steps)
    assert not any("fuse_softmax_cross_entropy" in reports for reports in seen)
    with choosing(checked({"build": {"enable_auto_fusion": True}}, "a test")):
        losses, _ = trained(steps)
    assert any("fuse_softmax_cross_entropy" in reports for reports in seen)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_an_optimizer_is_decorated() -> None:
    expected, plain = trained()
    with choosing(checked({"precision": {"decorate": True}}, "a test")):
        losses, half = trained()
    types = [{op.type for block in one.blocks for op in block.ops} for one in (plain, half)]
    assert "cast" in types[1] - types[0]
    np.testing.assert_allclose(losses, expected, rtol=2e-2)
    assert losses != expected


def test_a_reader_is_made_as_chosen() -> None:
    with choosing(checked({"reader": {"use_multiprocess": True, "capacity": 3}}, "a test")):
        loader = fluid.io.DataLoader.from_generator([], 7)
    assert type(loader).__name__ == "ProcessGeneratorLoader"
    assert loader.queue.capacity() == 3


SCRIPT = """\
import os
import paddle.fluid as fluid
print(fluid.get_flags("FLAGS_refluid_tier"), os.environ["CPU_NUM"], len(fluid.cpu_places()))
"""


def test_run_with_a_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "good.toml").write_text(written(checked(ALL, "a test")))
    (tmp_path / "bad.toml").write_text("[build]\nenable_inplace = 3\n")
    ran = [
        started.refluid("run", "--strategy", f"{name}.toml", "train.py", folder=tmp_path)
        for name in ("good", "bad", "none")
    ]
    assert ran[0].stdout == "{'FLAGS_refluid_tier': 'recorded'} 2 2\n", ran[0].stderr
    assert [one.returncode for one in ran] == [0, 2, 2]
    assert "bad.toml: [build] enable_inplace is bool, not 3" in ran[1].stderr
    assert "none.toml" in ran[2].stderr and not ran[1].stdout


def test_nothing_is_left_chosen() -> None:
    choose(NONE)
    assert overlaid(DEFAULT) is DEFAULT


def test_of_fleets_only_exchanges_are_for_a_file() -> None:
    found = checked({"fleet": {"bucket_megabytes": 8.0, "exchange_type": "bfloat16"}}, "it")
    assert dict(found.of(KnobScope.FLEET)) == {"bucket_megabytes": 8.0, "exchange_type": "bfloat16"}
    with pytest.raises(WrongStrategy, match="sharding_stage: is for the script to say"):
        checked({"fleet": {"sharding_stage": 2}}, "it")

"""Program files of `FleetUtil`: both formats, what is told of them, whether pruned ones fit."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid.incubate.fleet.utils import utils
from refluid.fluid.incubate.fleet.utils.fleet_util import FleetUtil


def network(width: int = 2) -> Any:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        out = fluid.layers.fc(fluid.data("x", [None, 3]), width)
        out = fluid.layers.fc(out, 1)
    return main, startup, out


@pytest.mark.parametrize("is_text", [False, True])
def test_a_program_is_the_same_in_both_formats(tmp_path: Path, *, is_text: bool) -> None:
    main, startup, out = network()
    utils.save_program(main, str(tmp_path / "model"), is_text)
    other = FleetUtil().program_type_trans(str(tmp_path), "model", is_text)
    assert other == ("model.bin" if is_text else "model.pbtxt")
    back = utils.load_program(str(tmp_path / other), not is_text)
    assert back.desc.serialize_to_string() == main.desc.serialize_to_string()
    exe = fluid.Executor()
    exe.run(startup)
    feed = {"x": np.ones((2, 3), "float32")}
    found = [exe.run(one, feed=feed, fetch_list=[out.name])[0] for one in (main, back)]
    assert (found[0] == found[1]).all()


def test_files_without_a_program(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("blocks { 5")
    (tmp_path / "raw").write_bytes(b"\xff\x00no program")
    for name, is_text in (("text", True), ("raw", True), ("raw", False)):
        with pytest.raises(EnforceNotMet):
            utils.load_program(str(tmp_path / name), is_text)


def test_what_a_program_has_is_told(tmp_path: Path) -> None:
    main, _, _ = network()
    utils.save_program(main, str(tmp_path / "model"))
    FleetUtil().parse_program_proto(str(tmp_path / "model"), False, str(tmp_path / "told"))
    told = {one.name: one.read_text().splitlines() for one in (tmp_path / "told").iterdir()}
    assert told["ops.log"][:2] == [
        "ops:",
        "{'type': 'mul', 'input_arg_names': \"['x', 'fc_0.w_0']\", "
        "'output_arg_names': \"['fc_0.tmp_0']\"}",
    ]
    assert len(told["vars_all.log"]) == 10 and len(told["vars_persistable.log"]) == 5
    assert "'name': 'fc_0.w_0', 'shape': '(3, 2)'" in told["vars_persistable.log"][1]


def test_pruned_programs_fit_their_model(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    utils.save_program(network()[0], str(tmp_path / "train"))
    utils.save_program(network(4)[0], str(tmp_path / "wider"), is_text=True)
    utils.save_program(fluid.Program(), str(tmp_path / "empty"))

    def check(train: str, pruned: str) -> bool:
        asked = SimpleNamespace(
            train_prog_path=str(tmp_path / train),
            is_text_train_program=train == "wider",
            pruned_prog_path=str(tmp_path / pruned),
            is_text_pruned_program=pruned == "wider",
            draw=True,
            draw_out_name=f"{pruned}-graph",
        )
        return FleetUtil().check_two_programs(asked)

    assert check("train", "train") and check("train", "empty")
    assert (tmp_path / "train-graph.dot").read_text().startswith("digraph")
    assert not check("train", "wider") and "fc_0.w_0 is (3, 4)" in caplog.text
    assert not check("empty", "train") and "no variable fc_0.w_0" in caplog.text

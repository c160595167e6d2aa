"""What scripts of online learning do in each pass: metrics, models by day, files elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
from refluid.fluid.incubate.fleet.utils.fleet_util import FleetUtil
from refluid.fluid.incubate.fleet.utils.hdfs import HDFSClient
from refluid.fluid.incubate.fleet.utils.metrics import area, bucket_error


class _Alone:
    """The fleet of one worker, whose models are only noted."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def worker_index(self) -> int:
        return 0

    def barrier_worker(self) -> None:
        """Nobody is waited for."""

    def all_reduce_worker(self, given: Any, out: Any) -> None:
        out[...] = 2 * given

    def save_model(self, path: str, mode: int = 0) -> None:
        self.calls.append((path, mode))


@pytest.fixture
def util() -> Any:
    made = FleetUtil("transpiler")
    made._fleet = _Alone()
    return made


def test_the_area_is_that_of_all_pairs() -> None:
    random = np.random.RandomState(0)
    for _ in range(20):
        size = random.randint(1, 30)
        positive, negative = random.randint(0, 5, size), random.randint(0, 5, size)
        pairs = above = 0.0
        for i, up in enumerate(positive):
            for j, down in enumerate(negative):
                pairs += up * down
                above += up * down * (1.0 if i > j else 0.5 if i == j else 0.0)
        expected = above / pairs if pairs else 0.5
        assert area(positive[None], negative[None]) == pytest.approx(expected)


def test_metrics_of_all_workers(util: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scope = fluid.Scope()
    values = {
        "pos_stat": np.array([[0, 1, 3]], "int64"),
        "neg_stat": np.array([[4, 1, 1]], "int64"),
        "sqrerr": [2.5],
        "abserr": [4.0],
        "prob": [5.0],
        "q": [1.0],
        "pos": [4.0],
        "total": [10.0],
    }
    for name, value in values.items():
        scope.var(name).get_tensor().set(np.array(value), fluid.CPUPlace())
    found = util.get_global_metrics(scope, "pos_stat", "neg_stat")
    np.testing.assert_allclose(found[2:], [0.4, 0.5, 0.4, 0.5, 0.8, 0.1, 20.0])
    assert found[0] == util.get_global_auc(scope, "pos_stat", "neg_stat") == pytest.approx(0.875)
    util.print_global_metrics(scope, "pos_stat", "neg_stat", print_prefix="pass 1")
    assert "pass 1 global auc=0.875" in capsys.readouterr().out
    assert util.get_global_auc(scope, "no_such", "neg_stat") is None
    util.set_zero("pos_stat", scope)
    assert not np.array(scope.find_var("pos_stat").get_tensor()).any()


def test_predictions_that_are_right_have_no_bucket_error() -> None:
    rate = (np.arange(200) + 0.5) / 200
    assert bucket_error(1000 * rate, 1000 * (1 - rate)) == pytest.approx(0.0, abs=1e-9)
    assert bucket_error(500 * rate, 1000 - 500 * rate) == pytest.approx(0.5)


def test_models_by_day(util: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output = str(tmp_path / "out")
    assert util.get_last_save_model(output, "", "")[:3] == [-1, -1, ""]
    util.save_model(output, 20261123, 5)
    util.save_delta_model(output, 20261123, 6)
    util.save_xbox_base_model(output, 20261123)
    util.save_batch_model(output, 20261123)
    told = [f"{output}/20261123/{one}" for one in (5, "delta-6", "base", 0)]
    assert util._fleet.calls == list(zip(told, (0, 1, 2, 3), strict=True))
    for day, number in ((20261123, 5), (20261123, 6), (20261124, -1), (20261123, 6)):
        util.write_model_donefile(output, day, number, 77, "", "")
    lines = (tmp_path / "out" / "donefile.txt").read_text().splitlines()
    assert len(lines) == 3
    assert lines[0] == f"20261123\t77\t{output}/20261123/5\t5\t0"
    assert util.get_last_save_model(output, "", "") == [20261124, 0, f"{output}/20261124/0", 77]
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_models_that_serve(util: Any, tmp_path: Path) -> None:
    output, no_home = str(tmp_path / "out"), ("", "")
    assert util.get_last_save_xbox(output, *no_home)[:3] == [-1, -1, ""]
    assert util.get_last_save_xbox_base(output, *no_home)[:2] == [-1, ""]
    for day, number in ((20261123, 5), (20261123, 6), (20261123, 5), (20261123, -1)):
        util.write_xbox_donefile(output, day, number, 77, ["a", "b"], *no_home, {"auc": 0.5})
    lines = (tmp_path / "out" / "xbox_patch_done.txt").read_text().splitlines()
    assert len(lines) == 2
    told = json.loads(lines[0])
    assert told["ins_path"] == "a,b" and json.loads(told["monitor_data"]) == {"auc": 0.5}
    assert util.get_last_save_xbox(output, *no_home) == [
        20261123, 6, f"{output}/20261123/delta-6", 77,
    ]  # fmt: skip
    assert util.get_last_save_xbox_base(output, *no_home) == [
        20261123, f"{output}/20261123/base", 77,
    ]  # fmt: skip
    with pytest.raises(EnforceNotMet, match="no cache of frequent rows"):
        util.save_cache_model(output, 20261123, 5)


def test_parameters_of_a_pass(util: Any, tmp_path: Path) -> None:
    program, scope = fluid.Program(), fluid.Scope()
    for name in ("a", "b"):
        program.global_block().create_var(name=name, shape=[2], dtype="float32", persistable=True)
        scope.var(name).get_tensor().set(np.array([1.0, 2.0], "float32"), fluid.CPUPlace())
    save = [fluid.Executor(), scope, program]
    util.save_paddle_params(*save, "one", str(tmp_path), 20261123, 6, "", "")
    folder = tmp_path / "20261123" / "delta-6" / "dnn_plugin"
    util.save_paddle_params(
        *save, "many", str(tmp_path), 20261123, 6, "", "", var_names=["b"], save_combine=False
    )
    assert sorted(one.relative_to(folder).as_posix() for one in folder.rglob("*")) == [
        "many", "many/b", "one",
    ]  # fmt: skip


def test_splits_of_passes(util: Any) -> None:
    found = util.get_online_pass_interval("20190720", "{0..1} 23", 20, 2, False)
    assert found == [
        ["0000", "0020"],
        ["0040", "0100"],
        ["0120", "0140"],
        ["2300", "2320"],
    ]
    assert util.get_online_pass_interval("", "{0..3}", 60, 2, True) == [["00", "01"], ["02", "03"]]
    with pytest.raises(ValueError, match="no whole number of splits"):
        util.get_online_pass_interval("", "1", 7, 1, False)
    with pytest.raises(ValueError, match="a day has hours"):
        util.get_online_pass_interval("", "24", 60, 1, False)


def test_files_elsewhere(tmp_path: Path) -> None:
    client = HDFSClient(None, {})
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    for number in range(7):
        (here / f"part-{number}").write_text(f"{number}\n")
    client.upload(str(there), str(here), multi_processes=3)
    assert client.cat(str(there / "part-3")) == "3"
    assert client.cat(str(there / "none")) == ""
    assert len(client.lsr(str(there), ["part-0"])) == 6
    with pytest.raises(EnforceNotMet, match="couldn't be copied"):
        client.upload(str(there), str(here))
    client.upload(str(there), str(here), overwrite=True)
    back = tmp_path / "back"
    found = client.download(str(there), str(back), multi_processes=2)
    assert sorted(Path(one).read_text() for one in found) == [f"{n}\n" for n in range(7)]
    shares = [client.split_files(found, number, 3) for number in range(3)]
    assert sorted(one for share in shares for one in share) == sorted(found)
    assert client.upload_dir(str(tmp_path / "deep"), str(here))
    assert (tmp_path / "deep" / "here" / "part-6").is_file()
    with pytest.raises(EnforceNotMet, match="no such file"):
        client.upload(str(there), str(tmp_path / "no"))


def test_which_fleet_is_asked() -> None:
    util = FleetUtil()
    util._fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 1, ["127.0.0.1:6174"]))
    util.rank0_print("from the first")
    with pytest.raises(ValueError, match="pslib or transpiler"):
        FleetUtil("box")

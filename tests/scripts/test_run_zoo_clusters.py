"""`scripts/run_zoo_clusters.py`: jobs of servers and trainers, and what came of them."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.choices import often

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

_JOB = """\
import argparse, os, sys, time
import numpy as np, paddle.fluid as fluid
parser = argparse.ArgumentParser()
for name in ("role", "endpoints", "current_endpoint", "trainer_id", "trainers", "does"):
    parser.add_argument("--" + name, default="0")
told = parser.parse_args()
if told.does == "environment":
    told.role = os.environ["TRAINING_ROLE"].lower()
    told.endpoints = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"]
    told.current_endpoint = os.environ["POD_IP"] + ":" + os.environ["PADDLE_PORT"]
    told.trainer_id = os.environ["PADDLE_TRAINER_ID"]
    told.trainers = os.environ["PADDLE_TRAINERS_NUM"]
x = fluid.data("x", [None, 4])
loss = fluid.layers.reduce_mean(fluid.layers.square(fluid.layers.fc(x, 1)))
fluid.optimizer.SGD(0.05).minimize(loss)
split = fluid.DistributeTranspiler()
split.transpile(int(told.trainer_id), pservers=told.endpoints, trainers=int(told.trainers))
exe = fluid.Executor()
if told.role == "pserver":
    while told.does == "hang":
        time.sleep(1)
    program, startup = split.get_pserver_programs(told.current_endpoint)
    exe.run(startup)
    exe.run(program)
else:
    exe.run(fluid.default_startup_program())
    if told.does == "fail":
        sys.exit(3)
    for step in range(10):
        exe.run(split.get_trainer_program(), {"x": np.ones((2, 4), "float32")}, [loss])
    exe.close()
"""


@pytest.fixture(scope="module")
def jobs() -> Iterator[ModuleType]:
    path = list(sys.path)
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield import_module("run_zoo_clusters")
    finally:
        sys.path[:] = path


def came_of(jobs: ModuleType, folder: Path, does: str, limit: float = 100.0) -> str:
    """Of one server and two trainers that run the script so."""
    clone = folder / "models"
    (clone / "a").mkdir(parents=True)
    (clone / "a/job.py").write_text(_JOB)
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q", "-b", "release/1.7"], ["add", "-A"], ["commit", "-qm", "a"]):
        subprocess.run([*git, *words], check=True)
    told = does != "environment"
    recipe = jobs.ClusterRecipe("a", f"job.py --does {does}", branches=("1.7",), told=told)
    options = argparse.Namespace(clone=clone, servers=1, trainers=2, limit=limit)
    return str(jobs.came_of(recipe, "tcp", options, folder / "run"))


@pytest.mark.parametrize("does", often(["arguments", "environment"], ["arguments"]))
def test_servers_and_trainers_are_told_their_roles(
    jobs: ModuleType, tmp_path: Path, does: str
) -> None:
    said = came_of(jobs, tmp_path, does)
    assert said.startswith("trains; 10 losses"), said
    assert said.count("10 losses") == 2


@pytest.mark.slow
def test_who_fails_is_named_and_nothing_goes_on(jobs: ModuleType, tmp_path: Path) -> None:
    said = came_of(jobs, tmp_path, "fail")
    assert said == "trainer0 ends with 3, trainer1 ends with 3"


@pytest.mark.slow
def test_what_hangs_is_ended(jobs: ModuleType, tmp_path: Path) -> None:
    assert came_of(jobs, tmp_path, "hang", 8.0) == "out of time"


def test_every_trainer_has_a_file_of_its_own(jobs: ModuleType, tmp_path: Path) -> None:
    def make(folder: Path, _random: np.random.Generator) -> None:
        (folder / "part").write_text("1\n2\n3\n")

    jobs.ClusterRecipe("a", "b", make, cut=("part",)).prepare(tmp_path, 2)
    found = {one.name: one.read_text() for one in tmp_path.iterdir()}
    assert found == {"part-0": "1\n3\n", "part-1": "2\n"}
    assert all(len(one.branches) == 1 for one in jobs.CLUSTERS)

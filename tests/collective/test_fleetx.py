"""FleetX's own scripts (examples/resnet), unmodified, train with two workers on the CPU.

They are not part of refluid: REFLUID_FLEETX names the folder that has them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("REFLUID_FLEETX", ""))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (FOLDER / "resnet_static.py").is_file(), reason="REFLUID_FLEETX"),
]
FUSED = "Find all_reduce operators: {}. To make the speed faster, some all_reduce ops are fused "
FUSED += "during training, after fusion, the number of all_reduce ops is {}."
# Script: workers, and what it prints, as the guides show it.
SCRIPTS = {
    "static": (2, [FUSED.format(161, 5)]),
    "static_op_fusion": (
        2,
        [
            "Find momentum operators : 161, and 161 for dense gradients.",
            FUSED.format(161, 6),
            "subgraphs",
        ],
    ),
    "static_overlap": (2, [FUSED.format(161, 5)]),
    "static_communication_topolopy": (2, [FUSED.format(161, 5)]),
    "static_communication_frequency": (2, [FUSED.format(161, 5)]),
    "static_communication_others": (2, [FUSED.format(161, 5)]),
    "static_others": (2, [FUSED.format(161, 5)]),
    "static_amp": (2, [FUSED.format(161, 5)]),
    "static_localsgd": (2, []),
    "static_dgc": (2, [FUSED.format(161, 55)]),
    "gradient_merge": (2, [FUSED.format(161, 5), "gradient_merge=True <-> gradient_merge_configs"]),
    "lars": (2, [FUSED.format(161, 5), "lars=True <-> lars_configs", "0.0010000000474974513"]),
    "lamb": (2, [FUSED.format(161, 5), "lamb=True <-> lamb_configs", "0.009999999776482582"]),
    "recompute": (
        2,
        [FUSED.format(161, 5), "amp=True <-> amp_configs", "recompute=True <-> recompute_configs"],
    ),
    "sharding": (
        4,
        [FUSED.format(161, 5), "sharding=True <-> sharding_configs", "segment_broadcast_MB"],
    ),
    "pipeline": (4, []),
}


def launched(folder: Path, script: str, workers: int) -> str:
    """What the launcher printed, and the last worker, who knows a pipeline's losses."""
    home = FOLDER.parent / "pipeline" if script == "pipeline" else FOLDER
    for one in home.glob("*.py"):
        shutil.copy(one, folder)
    shutil.copy(Path(__file__).with_name("fleetx_small.py"), folder)
    shown = run(folder, workers, "fleetx_small.py", f"train_fleet_{script}.py")
    return shown + log_of(folder, workers - 1)


def log_of(folder: Path, worker: int) -> str:
    """What a worker printed."""
    return (folder / "log" / f"workerlog.{worker}").read_text()


def run(folder: Path, workers: int, *script: str) -> str:
    """What the launcher printed of a script in that folder."""
    command = [sys.executable, "-m", "refluid.cli.main", "launch", "-n", str(workers)]
    command += ["--place", "cpu", *script]
    path = os.pathsep.join(one for one in sys.path if one)
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_trains(script: str, tmp_path: Path) -> None:
    workers, wanted = SCRIPTS[script]
    shown = launched(tmp_path, script, workers)
    for text in wanted:
        assert text in shown, shown
    losses = re.findall(r"\[Epoch 0, batch \d+\] loss: (\S+), acc1: \S+, acc5: \S+", shown)
    assert losses and all(0 <= float(one) < 1e6 for one in losses), shown


# What the guide of models in parts shows, of both models.
GUIDE = [11.943981, -2.2283082, -13.341571, -29.284101, -63.219418]


@pytest.mark.parametrize(
    ("script", "pattern"),
    [
        ("model_parallelism/mp_static.py", r"mp_loss:  \[(\S+)\] single_loss:  \[(\S+)\]"),
        ("model_parallelism/mp_dygraph.py", r"loss \[(\S+)\]"),
        ("pipeline/alexnet_dygraph_pipeline.py", r"pp_loss:  \[(\S+)\]"),
    ],
)
def test_models_in_parts_and_stages(script: str, pattern: str, tmp_path: Path) -> None:
    shutil.copy(FOLDER.parent / script, tmp_path)
    shown = run(tmp_path, 2, Path(script).name)
    losses = re.findall(pattern, shown)
    assert losses == re.findall(pattern, log_of(tmp_path, 1)) and len(losses) == 5, shown
    if "single_loss" in pattern:
        for found, wanted in zip(losses, GUIDE, strict=True):
            assert [float(one) for one in found] == pytest.approx([wanted] * 2, rel=1e-6)

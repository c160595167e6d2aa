"""Networks train to the same numbers on a torch that lacks private names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid.kernels.parts import PARTS, part

NAMES = sorted(PARTS)
SCRIPT = Path(__file__).with_name("training_without_parts.py")
ONEDNN = [name for name in NAMES if ".mkldnn." in name]


def trained(groups: list[list[str]]) -> list[dict[str, Any]]:
    """What was trained without each group of names."""
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), json.dumps(groups)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: list[dict[str, Any]] = json.loads(ran.stdout.splitlines()[-1])
    for names, one in zip(groups, found, strict=True):
        assert "error" not in one, f"without {names}: {one['error']}"
    return found


def assert_equal(groups: list[list[str]], found: list[dict[str, Any]]) -> None:
    whole = found[groups.index([])]["losses"]
    for names, one in zip(groups, found, strict=True):
        assert one["losses"].keys() == whole.keys()
        for network, losses in one["losses"].items():
            why = f"{network} without {names}"
            close = 2e-2 if network == "half" else 2e-5
            np.testing.assert_allclose(losses, whole[network], rtol=close, err_msg=why)


@pytest.mark.parametrize(
    "more", [[], pytest.param([ONEDNN, NAMES[::2], NAMES[1::2]], marks=pytest.mark.slow)]
)
def test_groups_of_names(more: list[list[str]]) -> None:
    groups = [[], NAMES, *more]
    found = trained(groups)
    assert_equal(groups, found)
    assert found[1]["asked"] == NAMES, "names that nobody asks for"


@pytest.mark.slow
def test_each_name() -> None:
    groups = [[], *([name] for name in NAMES)]
    assert_equal(groups, trained(groups))


@pytest.mark.slow  # it imports TorchInductor
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torch_has_them_all() -> None:
    """Where it hasn't any more, what takes the place of a name is all that is left of it."""
    assert not [name for name in NAMES if part(name, None) is None and name not in ONEDNN]


def test_other_names_are_not_looked_for() -> None:
    with pytest.raises(KeyError, match="isn't in the table"):
        part("torch._assert", None)

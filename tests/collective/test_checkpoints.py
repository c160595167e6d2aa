"""Checkpoints: what goes on from one is as what was never interrupted, bit by bit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.collective.saving.checkpoints import Checkpointing
from refluid.collective.saving.folders import folder_of, numbers
from refluid.collective.saving.shares import shares_of
from refluid.core.errors import EnforceNotMet
from tests.choices import often
from tests.collective.jobs import as_trainers
from tests.collective.networks import parameters
from tests.collective.resuming import (
    BATCHES,
    EPOCHS,
    KINDS,
    Training,
    begun_again,
    crash_while_saving,
    network,
    train,
    train_both,
    train_layers,
    train_until_signalled,
)
from tests.collective.resuming_fleets import FLEETS

STEPS = EPOCHS * BATCHES


def ran(
    size: int, tmp_path: Path, folder: str, most: int = 99, kinds: Sequence[str] = (*KINDS,)
) -> list[list[Any]]:
    """What each trainer has of each kind."""
    given = ([*kinds], str(tmp_path / folder), 3, most)
    found = as_trainers(size, train, *given, folder=tmp_path) if size > 1 else [train(*given)]
    assert all(isinstance(one, list) for one in found), found
    return found


def check_resumed(size: int, tmp_path: Path, kinds: Sequence[str]) -> None:
    """Losses of training that was interrupted twice are those of what never was."""
    folders = str(tmp_path / "whole"), str(tmp_path / "parts")
    # In the first epoch, and in the second.
    whole = as_trainers(size, train_both, [*kinds], *folders, 3, 4, folder=tmp_path)
    assert all(isinstance(one, list) for one in whole), whole
    ran(size, tmp_path, "parts", 4, kinds)
    resumed = ran(size, tmp_path, "parts", kinds=kinds)
    for rank in range(size):
        for kind, one, other in zip(kinds, whole[rank], resumed[rank], strict=True):
            assert one[:2] == (False, 0) and len(one[2]) == STEPS, kind
            assert other[0] and other[1] == 6, (kind, other)
            assert other[2] == one[2][6:] and np.isfinite(one[2]).all(), (kind, one[2])
            last = kind != "stages" or rank % 2
            assert len({*one[2]}) == (STEPS if last else 1), "steps differ, where a loss is known"


# With moments shared out, with what waits at each trainer, and with layers of its own.
SOME = ["a reader of the program", "compressed", "stages"]


@pytest.mark.parametrize(
    "kinds", often([SOME, [*KINDS, "stages", "parts"]], [SOME]), ids=["some", "all"]
)
def test_what_resumes_goes_on_as_if_never_interrupted(kinds: list[str], tmp_path: Path) -> None:
    check_resumed(2, tmp_path, kinds)


@pytest.mark.slow
def test_stages_and_parts_of_several_groups_resume(tmp_path: Path) -> None:
    check_resumed(4, tmp_path, [*FLEETS])


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2)])
def test_stages_and_parts_go_on_in_another_number(before: int, after: int, tmp_path: Path) -> None:
    """Each stage or part goes to those who have it now."""
    kinds = ["stages", "parts"]
    ran(before, tmp_path, "kept", 4, kinds)
    given = kinds, str(tmp_path / "kept")
    own, others = (as_trainers(n, begun_again, *given, folder=tmp_path) for n in (before, after))
    for rank, found in enumerate(others):
        assert isinstance(found, list), found
        for kind, (first, then), (wanted, _), (_, twin) in zip(
            kinds, found, own[rank % 2], others[rank % 2], strict=True
        ):
            statistics = [name for name in wanted if "batch_norm" in name]
            assert first.keys() == wanted.keys() and statistics
            for name, value in wanted.items():
                np.testing.assert_array_equal(first[name], value, f"{kind} {name}")
            for name, value in then.items():
                np.testing.assert_array_equal(value, twin[name], f"{kind} {name}")
    split = [name for name, value in own[0][1][0].items() if (value != own[1][1][0][name]).any()]
    assert any("split" in one for one in split), "workers have parts of their own"


@pytest.mark.slow
def test_layers_of_dygraph_resume_too(tmp_path: Path) -> None:
    """With their optimizer's moments and schedule."""
    whole = as_trainers(2, train_layers, str(tmp_path / "whole"), 2, 99, folder=tmp_path)
    begun = as_trainers(2, train_layers, str(tmp_path / "parts"), 2, 5, folder=tmp_path)
    rest = as_trainers(2, train_layers, str(tmp_path / "parts"), 2, 99, folder=tmp_path)
    for one, first, other in zip(whole, begun, rest, strict=True):
        assert isinstance(one, tuple) and isinstance(other, tuple), (one, other)
        assert not one[0] and other[0] and first[1] == one[1][:5]
        assert other[1] == one[1][4:] and np.isfinite(one[1]).all()
        for name, value in one[2].items():
            np.testing.assert_array_equal(other[2][name], value, err_msg=name)


@pytest.mark.slow
def test_another_number_of_trainers_goes_on(tmp_path: Path) -> None:
    ran(2, tmp_path, "parts", 4)
    for size in (3, 1):
        for own in ran(size, tmp_path, "parts", 1):
            for resumed, begun, losses in own:
                assert resumed and begun == 3 and len(losses) == 1 and np.isfinite(losses).all()


def test_a_checkpoint_is_fluids_files(tmp_path: Path) -> None:
    """And each variable is there once, but for those of which each trainer has its own."""
    ran(2, tmp_path, "parts", 4)
    for kind in KINDS:
        folder = folder_of(tmp_path / "parts" / kind, 0)
        training = Training(kind, str(tmp_path / "none"), 0)
        fluid.io.load_persistables(training.executor, str(folder / "persistables"), training.main)
        loaded = parameters(training.main)
        assert all(np.isfinite(one).all() for one in loaded.values())
        own = sorted(one.name for one in (folder / "trainer.1").iterdir())
        assert own[-1] == "state.json"
        waits = sorted(one for one in own if "dgc" in one)
        assert len(waits) == (2 if kind == "compressed" else 0), own
        rest = [one for one in own[:-1] if one not in waits]
        assert all(name.startswith("batch_norm") for name in rest) and len(rest) == 2, own


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a reader", "stages", "parts"])
def test_a_signal_saves_and_ends_all(kind: str, tmp_path: Path) -> None:
    given = kind, str(tmp_path / "kept")
    assert as_trainers(2, train_until_signalled, *given, folder=tmp_path) == [143, 143]
    (number,) = numbers(tmp_path / "kept")
    text = (folder_of(tmp_path / "kept", number) / "checkpoint.json").read_text()
    assert '"step": 4' in text or '"step": 3' in text, text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a reader", "stages", "parts"])
def test_a_crash_while_saving_leaves_the_last_one(kind: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept" / kind
    found = as_trainers(2, crash_while_saving, kind, str(kept), folder=tmp_path)
    assert found[0] == 9 and "PeerFailed" in found[1], found
    assert numbers(kept) == [0] and (kept / "checkpoint.1.begun").is_dir()
    given = ([kind], str(tmp_path / "kept"), 2, 99)
    for ((resumed, begun, losses),) in as_trainers(2, train, *given, folder=tmp_path):
        assert resumed and begun == 2 and len(losses) == STEPS - 2
    assert numbers(kept) == [1, 2, 3]


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        network()
    executor = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        kept = Checkpointing(tmp_path / "kept", main, on=())
        assert not kept.resume()
        made = kept.save()
        assert kept.resume()
        with pytest.raises(EnforceNotMet, match="every is 0 or more"):
            Checkpointing(tmp_path, main, every=-1, on=())
        with pytest.raises(TypeError, match="checkpoints are of a Program"):
            Checkpointing(tmp_path, 3, on=()).save()
        file = made / "persistables" / "fc_0.w_0"
        before = file.read_bytes()
        file.write_bytes(before[:-1] + b"x")
        with pytest.raises(EnforceNotMet, match=r"fc_0.w_0 of the checkpoint is damaged"):
            kept.resume()
        file.unlink()
        with pytest.raises(EnforceNotMet, match="can't be read"):
            kept.resume()
        file.write_bytes(before)
        kept.resume()
        blocked = tmp_path / "file"
        blocked.write_text("")
        with pytest.raises(EnforceNotMet, match="no checkpoint was written: trainer 0"):
            Checkpointing(blocked / "kept", main, on=()).save()
        (made / "checkpoint.json").write_text('{"version": 99}')
        with pytest.raises(EnforceNotMet, match="of version 99"):
            kept.resume()


def test_parts_of_layers_need_as_many_trainers(tmp_path: Path) -> None:
    with fluid.dygraph.guard():
        layer = fluid.dygraph.Linear(2, 3)
        kept = Checkpointing(tmp_path, layers=[layer], on=())
        manifest = kept.save() / "checkpoint.json"
        assert kept.resume()
        said = json.loads(manifest.read_text())
        said |= {"trainers": 2, "own_files": [{"layer0/weight": "a"}, {"layer0/weight": "b"}]}
        manifest.write_text(json.dumps(said))
        with pytest.raises(EnforceNotMet, match=r"layer0/weight\): so many must go on"):
            kept.resume()


def test_shares_are_even_and_each_is_written_once() -> None:
    alike: dict[str, Any] = {f"v{number}": ("a", 10) for number in range(4)}
    shares = shares_of(
        [
            {**alike, "own": ("x", 5), "part": ("p", 1)},
            {**alike, "own": ("y", 5), "late": ("q", 2)},
        ],
        {"v0": 1, "part": 1},
    )
    assert shares.own == ["own"] and shares.writers["v0"] == (1, "a")
    assert shares.writers["own"][0] == 0
    assert shares.writers["part"] == (0, "p") and shares.writers["late"] == (1, "q")
    loads = [sum(rank == one for rank, _ in shares.writers.values()) for one in range(2)]
    assert loads == [4, 3]

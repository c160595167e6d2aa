"""What binds a loop is named, and only that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from refluid.measure.ceilings import Ceilings
from refluid.tune import diagnosis
from refluid.tune.diagnosis import diagnose
from refluid.tune.doctor.load import LoadByOthers
from refluid.tune.evidence import BoundBy, Evidence
from refluid.tune.living import Life, LoopKind
from refluid.tune.profile import KernelUse, OperatorCost, Profile
from refluid.tune.space import proposals
from refluid.tune.worth import Situation
from tests.tune.test_doctor import WELL

LIFE = Life(60, 0.0102, 0.010, 0.0002, 0.0, "", (0.0, 0), [("train.py:3", 1.0)], 4, 0.0, 10**8)
SMALL = OperatorCost("", "", "", 0.3, 10**6, 10**4)
PROFILE = Profile(
    ms=9.5, between=0.2, small=SMALL, operators=60, updates=12, updates_ms=0.5,
    flops=10**8, moved=10**7, peak=10**7, fed={"x": [32, 64]}, reads=False, half=False,
    replicas=1, threads=0, everywhere=False, fusions=[], flags={}, slowest=[], by_line=[],
)  # fmt: skip
WELL_SEEN = Evidence(LIFE, PROFILE, Ceilings(1e11, 1e10), 1.1, WELL, LoadByOthers(0.01, 0.0), {})


def seen(flags: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    life = {name: value for name, value in changes.items() if name in Life.__annotations__}
    profile = {name: value for name, value in changes.items() if name in Profile.__annotations__}
    others = {name: value for name, value in changes.items() if name not in life | profile}
    return replace(
        WELL_SEEN,
        life=replace(LIFE, **life),
        profile=replace(PROFILE, **profile),
        flags=flags or {},
        **others,
    )


PLANTED = {
    "slow reader": seen(
        waited=0.02, outside=0.021, reader="DataLoader(x): reader-bound", scopes=["READER"]
    ),
    "slow reader ": seen(waited=0.008, reads=True, fed={}, reader="py_reader: reader-bound"),
    "data prepared between steps": seen(outside=0.01),
    "copy each step": seen(outside=0.01, lines=[("copying.py:1", 0.9)]),
    "large fetch": seen(fetched=1 << 24),
    "too many threads": seen(threads=64),
    "too many threads ": seen({"FLAGS_paddle_num_threads": 64}),
    "machine loaded by others": seen(load=LoadByOthers(0.5, 0.0)),
    "machine loaded by others ": seen(waiting=0.7),
    "many small parameters": seen(updates=1000, updates_ms=5.0),
    "garbage kept": seen({"FLAGS_eager_delete_tensor_gb": -1.0}),
    "memory": seen(peak=50 * 10**9),
    "float32 where bfloat16 may do": seen(half=8.0, flops=4 * 10**8, host=WELL),
    "checks": seen({"FLAGS_check_nan_inf": True}),
    "exchanges with other trainers": seen(exchanged=0.006),
    "exchanges with servers of tables": seen(exchanged=0.006, kind=LoopKind(servers=True)),
    "operators one by one from Python": seen(
        kind=LoopKind(at_once=True), small=OperatorCost("", "", "", 6.0, 10**6, 10**4)
    ),
    "one trainer slower than the others": seen(
        lives=tuple(replace(LIFE, exchanged=part) for part in (0.004, 0.0, 0.005, 0.004))
    ),
}
PLANTED["float32 where bfloat16 may do"] = replace(seen(flops=4 * 10**8), half=8.0)


def test_a_good_loop_has_nothing_to_mend() -> None:
    found = diagnose(WELL_SEEN)
    assert found.causes == () and found.bound is BoundBy.KERNELS
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert list(found.shares.values()) == sorted(found.shares.values(), reverse=True)
    assert found.efficiency == pytest.approx(0.1) and found.limit in ("arithmetic", "memory")


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "w = np.array(scope.find_var('w').get_tensor())"
    monkeypatch.setattr("linecache.getline", lambda path, _number: line if "copy" in path else "")
    causes = {one.name: one for one in diagnose(PLANTED[name]).causes}
    assert set(causes) == {name.strip()}
    assert causes[name.strip()].advice and causes[name.strip()].fact


@pytest.mark.parametrize("look", diagnosis._LOOKS, ids=lambda look: look.__name__)
def test_without_a_look_something_is_missed(look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    every = {name.strip() for name in PLANTED}
    others = tuple(one for one in diagnosis._LOOKS if one is not look)
    line = "w = np.array(scope.find_var('w').get_tensor())"
    monkeypatch.setattr("linecache.getline", lambda path, _number: line if "copy" in path else "")
    monkeypatch.setattr(diagnosis, "_LOOKS", others)
    assert every - {one.name for seen in PLANTED.values() for one in diagnose(seen).causes}


def test_bounds() -> None:
    assert diagnose(PLANTED["slow reader"]).bound is BoundBy.READER
    assert diagnose(seen(outside=0.05)).bound is BoundBy.PYTHON
    assert (
        diagnose(seen(small=OperatorCost("", "", "", 8.0, 10**6, 10**4))).bound
        is BoundBy.SCHEDULING
    )


def test_the_slow_trainer_is_told_by_its_number() -> None:
    (cause,) = diagnose(PLANTED["one trainer slower than the others"]).causes
    assert "trainer 1 takes 10.2 ms" in cause.fact and "the others 6.2 ms" in cause.fact
    waiting = tuple(replace(LIFE, exchanged=0.004) for _ in range(4))  # for the link, all of them
    assert not diagnose(seen(lives=waiting)).causes


def test_exchanges_bind() -> None:
    found = diagnose(seen(exchanged=0.008))
    assert found.bound is BoundBy.COMMUNICATION
    assert found.shares[BoundBy.COMMUNICATION] == pytest.approx(0.008 / 0.0102)
    alone, together = seen(exchanged=0.008), seen(exchanged=0.008, lives=(LIFE,) * 2)
    assert not any("exchange" in one for one in keys(alone))
    assert keys(together)[0] == "exchange_type = bfloat16"
    assert "use_hierarchical_allreduce = True" not in keys(together)
    assert "CPU_NUM = 8" not in keys(seen(everywhere=True, lives=(LIFE,) * 2))


def keys(one: Evidence, learned: dict[str, float] | None = None) -> list[str]:
    return [found.key for found in proposals(Situation(one, diagnose(one)), learned or {})]


def test_what_is_tried_follows_from_the_diagnosis() -> None:
    assert "decorate = True" not in keys(WELL_SEEN)
    half = keys(PLANTED["float32 where bfloat16 may do"])
    assert half[0] == "decorate = True"
    reading = keys(PLANTED["slow reader"])
    assert reading[0] == "use_multiprocess = True" and "capacity = 64" in reading
    assert not any("use_multiprocess" in one for one in keys(WELL_SEEN))
    of_dataset = keys(replace(PLANTED["slow reader"], profile=replace(PROFILE, scopes=["LOADER"])))
    assert "num_workers = 1" in of_dataset and "use_multiprocess = True" not in of_dataset
    assert "fuse_bn_act_ops = True" in keys(seen(fusions=["fuse_bn_act_ops"]))
    assert "fuse_bn_act_ops = True" not in keys(WELL_SEEN)
    assert "CPU_NUM = 8" in keys(seen(everywhere=True, replicas=2))
    assert "num_threads = 1" in keys(seen(threads=64))
    threads = [one for one in keys(WELL_SEEN) if "paddle_num_threads" in one]
    assert sorted(threads) == [f"FLAGS_paddle_num_threads = {n}" for n in (1, 2, 4)]


def test_kernels_and_layouts_are_tried_where_there_are_several() -> None:
    use = KernelUse(["conv2d", "mul"], multiplies=True, convolves=True, laid=True)
    found = set(keys(seen(kernels=use)))
    assert {
        "FLAGS_refluid_native_kernels = conv2d", "FLAGS_refluid_native_kernels = mul",
        "FLAGS_refluid_onednn_from = 262144", "FLAGS_refluid_channels_last = never",
        "FLAGS_refluid_panel_products = False",
    } <= found  # fmt: skip
    narrow = keys(seen(kernels=replace(use, laid=False, multiplies=False, chosen=["conv2d"])))
    assert "FLAGS_refluid_channels_last = always" in narrow
    assert not any("onednn_from" in one or "= mul" in one or "panel" in one for one in narrow)
    assert not any("native" in one or "channels" in one for one in keys(WELL_SEEN))
    assert "FLAGS_refluid_record_after = 0" in keys(seen(varied=True, small=SMALL, between=5.0))
    assert not any("record_after" in one for one in keys(WELL_SEEN))


def test_what_spares_memory_is_tried_first_where_that_binds() -> None:
    found = keys(seen(peak=50 * 10**9, plain=True))
    assert found[:3] == [
        "memory_optimize = True", "FLAGS_refluid_batch_parts = 2", "FLAGS_refluid_batch_parts = 4",
    ]  # fmt: skip
    assert not any("parts" in one for one in keys(seen(plain=True)))
    odd = keys(seen(peak=50 * 10**9, plain=True, fed={"x": [6, 64]}))
    assert "FLAGS_refluid_batch_parts = 2" in odd and "FLAGS_refluid_batch_parts = 4" not in odd
    assert not any("parts" in one for one in keys(seen(peak=50 * 10**9)))  # it has replicas


def test_what_helped_here_before_comes_first() -> None:
    later = "enable_inplace = False"
    assert keys(WELL_SEEN)[0] != later
    assert keys(WELL_SEEN, {later: 0.9})[0] == later


def test_what_makes_later_trials_long_comes_last() -> None:
    compiled = "enable_auto_fusion = True"
    assert keys(WELL_SEEN, {compiled: 0.9})[-1] == compiled

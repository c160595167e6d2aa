"""The benchmark suite: what is fed, how results are kept and shown, and a rival in its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.suite import page
from benchmarks.suite.__main__ import (
    best_tier,
    chosen_peers,
    kept_in,
    parse_options,
    rivals_of,
    settings_of,
)
from benchmarks.suite.measure import Settings, _reason
from benchmarks.suite.missed import missed, missed_lines
from benchmarks.suite.networks.lstm_weights import cell_parts, lod_parts
from benchmarks.suite.networks.padding import padded
from benchmarks.suite.peers import how_to_install
from benchmarks.suite.plot import draw
from benchmarks.suite.results import best, difference, merged, moved
from benchmarks.suite.rivals import RIVALS, RivalFailed, Running, environment
from benchmarks.suite.sides.pytorch_side import COUNTED
from benchmarks.suite.sides.side import Options, make
from benchmarks.suite.worker import FEEDS, read_feeds, write_feeds
from benchmarks.suite.workloads import WORKLOADS
from tests.benchmarks.kept import measured, result
from tests.choices import often

SMALL = ("mlp", "conv", "lstm_lod", "tagger", "seq2seq", "ctr", "deepfm", "ncf", "word2vec")


def test_feeds_are_the_same_every_time_and_survive_the_file(tmp_path: Path) -> None:
    for name in ("mlp", "tagger", "ctr"):
        feeds = WORKLOADS[name].feeds()[:2]
        write_feeds(tmp_path / FEEDS, feeds)
        again = read_feeds(tmp_path / FEEDS)
        for one, other in zip(feeds, again, strict=True):
            assert one.keys() == other.keys()
            assert all(np.array_equal(one[key], other[key]) for key in one)


def test_padding_keeps_every_word_and_turns_each_sequence() -> None:
    feed = WORKLOADS["tagger"].feeds()[0]
    found = padded(feed)
    assert np.array_equal(found["words"].reshape(-1)[found["rows"]], feed["words"][:, 0])
    assert found["mask"].sum() == len(feed["words"])
    length = int(found["lengths"][1])
    turned = np.take_along_axis(found["words"], found["turned"], 1)
    assert np.array_equal(turned[1, :length], found["words"][1, :length][::-1])
    assert padded(WORKLOADS["ctr"].feeds()[0])["slots"].shape == (1000, 26)


def test_gates_are_reordered() -> None:
    weight = np.arange(4.0)[None].repeat(3, 0)  # two inputs, width one; i, j, f, o
    parts = cell_parts(weight, np.zeros(4))
    assert parts["ih"].tolist() == [[0.0, 0.0], [2.0, 2.0], [1.0, 1.0], [3.0, 3.0]]
    assert parts["hh"].shape == (4, 1)
    assert parts["bias"].tolist() == [0.0, 1.0, 0.0, 0.0]
    lod = lod_parts(weight, weight[:1], weight[:1])  # c, i, f, o
    assert lod["hh"][:, 0].tolist() == lod["bias"].tolist() == [1.0, 2.0, 0.0, 3.0]


def test_results_pair_rivals_of_one_run_and_merge() -> None:
    first = result(theirs=3.0)
    assert first["peers"]["eager"]["ratio"] == {"value": 3.0, "low": 3.0, "high": 3.0}
    entry = result(theirs=2.0)["peers"]["eager"]
    later = merged(first, {"title": "MLP", "flops": 0}, {"jax": entry}, {"compile": "too slow"})
    assert set(later["peers"]) == {"eager", "jax"}
    assert later["failed"] == {"compile": "too slow"}
    assert later["flops"] == 60 and later["copied"] == 0
    gone = merged(later, {"title": "MLP"}, {}, {"eager": "broke"})
    assert set(gone["peers"]) == {"jax"} and "eager" in gone["failed"]


def test_page_shows_ratios_goals_and_failures(tmp_path: Path) -> None:
    fast, slow = result(2.0), result(1.2)
    assert page.ratio_cell(fast, "mlp", "eager").endswith("✓")
    assert page.ratio_cell(slow, "mlp", "eager").endswith("✗")
    assert page.ratio_cell(fast, "mlp", "jax") == "fails"
    assert page.ratio_cell(fast, "mlp", "paddle3") == "–"
    assert page.speed_rows({"mlp": fast})[1][4] == "40%"  # 60 operations in 1.5 s of 100 a second
    text = page.markdown({"mlp": fast}, "images/x.svg")
    assert "no room" in text and "![" in text and "1 MiB, 0.20 s" in text
    draw({"mlp": fast, "conv": slow}, tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text().count("<path") > 5


def test_missed_goals_come_with_a_profile() -> None:
    fast, slow = result(2.0), result(1.2)
    assert list(missed(fast, "mlp")) == []
    slow["peers"]["eager"]["ours"]["shares"] = {"addmm": 0.75}
    (line,) = missed_lines({"mlp": slow, "conv": fast})
    assert "1.20 of PyTorch eager instead of 1.5" in line
    assert "refluid, 1500.00 ms: addmm 75%." in line
    assert "40% of the ceiling instead of 85%" in list(missed(slow, "resnet50"))
    late = result(2.0)
    late["peers"]["eager"]["ours"]["first_step"] = 3.2
    assert list(missed(late, "mlp")) == ["first step 3.0 s after PyTorch eager's"]
    late["peers"]["eager"]["ours"]["peak"] = 2**21
    assert "1.00 of PyTorch eager's memory instead of 0.95" in list(missed(late, "mlp"))


def test_a_missed_goal_says_how_far_the_floor_is() -> None:
    """60 operations at 100 a second, and a step of 1.5 s; the peer takes 1.2 times as long."""
    slow = result(1.2) | {"moved": 10, "copied": 100.0}
    (line,) = missed_lines({"mlp": slow})
    assert (
        "by arithmetic, is 600 ms: refluid takes 2.5 times that, PyTorch eager 3.0 times." in line
    )
    (line,) = missed_lines({"mlp": slow | {"moved": 75}})
    assert "by memory, is 750 ms: refluid takes 2.0 times that" in line
    (line,) = missed_lines({"mlp": slow | {"moved": 75, "copied": 0.0}})
    assert "by arithmetic, is 600 ms" in line  # the rate of copies isn't known
    (line,) = missed_lines({"mlp": slow | {"alone": 0.9}})
    assert "take 900 ms: 2.00 of that peer if nothing else took time" in line
    (line,) = missed_lines({"mlp": slow | {"ceiling": 0.0}})
    assert "floor" not in line


def test_gradients_of_grouped_convolutions_are_counted_as_they_are() -> None:
    """Forward, gradients of both: 3 times 2 x 5 x 5 pixels of 8 channels, 3 x 3 of 4 channels."""
    layer = torch.nn.Conv2d(8, 8, 3, padding=1, groups=2)
    with FlopCounterMode(display=False, custom_mapping=COUNTED) as counter:
        layer(torch.zeros(2, 8, 5, 5, requires_grad=True)).sum().backward()
    assert counter.get_total_flops() == 3 * 2 * (2 * 25 * 8 * 9 * 4)
    with FlopCounterMode(display=False, custom_mapping=COUNTED) as counter:
        layer(torch.zeros(2, 8, 5, 5)).sum().backward()
    assert counter.get_total_flops() == 2 * 2 * (2 * 25 * 8 * 9 * 4)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_what_a_step_needs_is_counted() -> None:
    work = WORKLOADS["mlp"]
    side = make("pytorch", work, Options("eager"), make("refluid", work, Options(), None).weights())
    feed = side.prepare(work.first())
    needs, weights = side.needs(feed), 4 * sum(one.size for one in side.weights().values())
    assert weights == 4 * (784 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10)
    assert needs.held == 3 * weights
    assert needs.moved == 9 * weights + sum(one.nbytes for one in feed.values())
    products = 784 * 128 + 128 * 64 + 64 * 10
    assert needs.flops == 2 * 64 * (2 * products + 128 * 64 + 64 * 10)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_of_tables_the_rows_that_a_step_touches_are_counted() -> None:
    work = WORKLOADS["word2vec"]
    side = make("pytorch", work, Options("eager"), make("refluid", work, Options(), None).weights())
    rows = side.needs(side.prepare(work.first())).held / (4 * 128)
    words = [one for one in work.first().values() if one.dtype == np.int64]
    assert 0 < rows <= sum(one.size for one in words) < 50000


def test_the_faster_memory_layout_counts_as_eager() -> None:
    found = result(2.0)
    found["peers"]["channels_last"] = result(1.5)["peers"]["eager"]
    entry = best(found, "eager")
    assert entry is not None and entry["ratio"]["value"] == 1.5


def test_a_missing_peer_says_how_to_install_it() -> None:
    assert "benchmarks.suite.peers jax" in how_to_install(RIVALS["jax"])
    assert RIVALS["eager"].installed and RIVALS["eager"].python == Path(sys.executable)


def test_tier_goes_to_refluid_alone() -> None:
    recorded = environment(RIVALS["refluid"], 1, "recorded", None, "")
    assert recorded["FLAGS_refluid_tier"] == "recorded"
    assert "FLAGS_refluid_tier" not in environment(RIVALS["eager"], 1, "recorded", None, "")


@pytest.mark.parametrize("name", often(["refluid", "eager"], ["refluid"]))
def test_less_of_a_processor_is_for_all(name: str) -> None:
    settings = settings_of(parse_options(["--processor", "avx2"]))
    assert kept_in(settings).name == "cpu-avx2"
    assert "paddle3" not in chosen_peers(parse_options(["--processor", "avx2"]))
    limits = environment(RIVALS["jax"], 1, "auto", None, settings.processor)
    assert limits["XLA_FLAGS"].endswith("=AVX2")
    assert "TORCHINDUCTOR_CACHE_DIR" in limits
    assert "TORCHINDUCTOR_CACHE_DIR" not in environment(RIVALS["jax"], 1, "auto", None, "")
    limited = environment(RIVALS[name], 1, "auto", None, settings.processor)
    capability = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    ran = subprocess.run(
        [sys.executable, "-c", capability],
        env=os.environ | limited,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "512" not in ran.stdout


def test_the_faster_tier_counts_as_refluid() -> None:
    plain, compiled = measured(2.0, [2.0, 1.0]), measured(1.0, [2.0, 1.0])
    plain.peak, plain.first_step = 7, 0.7
    found, tier = best_tier({"refluid": plain, "refluid_compiled": compiled}, "auto")
    assert (found.median, tier) == (compiled.median, "compiled")
    assert (found.peak, found.first_step) == (7, 0.7)
    assert best_tier({"refluid": compiled, "refluid_compiled": plain}, "auto")[1] == "auto"
    ran = environment(RIVALS["refluid_compiled"], 1, "auto", None, "")
    assert ran["FLAGS_refluid_tier"] == "compiled"


def test_what_has_lod_is_not_compiled() -> None:
    assert rivals_of(WORKLOADS["mlp"], ["eager"], Settings(), False) == [
        "refluid_compiled",
        "eager",
    ]
    assert rivals_of(WORKLOADS["tagger"], ["eager"], Settings(), False) == ["eager"]
    assert rivals_of(WORKLOADS["mlp"], ["eager"], Settings(), True) == ["eager"]


@pytest.mark.parametrize("name", often(SMALL, {*SMALL} - {"seq2seq"}))
def test_refluid_and_pytorch_compute_the_same(name: str) -> None:
    work = WORKLOADS[name]
    ours = make("refluid", work, Options(), None)
    theirs = make("pytorch", work, Options("eager"), ours.weights())
    feed = work.feed(np.random.default_rng(7))
    pairs = [[side.step(side.prepare(feed)) for _ in range(3)] for side in (ours, theirs)]
    assert difference(*pairs) <= work.tolerance
    assert moved(pairs[0]) > 0


def test_a_second_refluid_starts_from_given_weights() -> None:
    work = WORKLOADS["mlp"]
    first = make("refluid", work, Options(), None)
    weights = {name: value + 1 for name, value in first.weights().items()}
    second = make("refluid", work, Options(), weights)
    assert all(np.array_equal(value, weights[name]) for name, value in second.weights().items())


def test_what_caused_a_failure_is_told() -> None:
    failure = RivalFailed(
        "ValueError: In user code:\n\n  File x\n\n  InvalidError: none [rnn]\n   1"
    )
    assert _reason(failure) == "InvalidError: none [rnn]"


@pytest.mark.slow
def test_a_rival_in_its_process(tmp_path: Path) -> None:
    work = WORKLOADS["mlp"]
    write_feeds(tmp_path / FEEDS, work.feeds()[:3])
    log = tmp_path / "log"
    with Running(RIVALS["refluid"], {}, log, 120.0) as rival:
        rival.build("mlp", Options(), tmp_path)
        found = rival.ask("losses", count=2)
        assert found["losses"][1] < found["losses"][0]
        assert len(rival.ask("block", steps=3)) == 3
        assert rival.ask("peak") > 0
        assert 0 < sum(rival.ask("shares").values()) < 1.01
        with pytest.raises(RivalFailed, match="no_such"):
            rival.ask("no_such")

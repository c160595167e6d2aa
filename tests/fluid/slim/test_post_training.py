"""A trained model is quantised by some batches, and gives nearly what it gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.fluid import layers
from refluid.fluid.contrib.slim.quantization import PostTrainingQuantization
from refluid.fluid.contrib.slim.quantization.thresholds import (
    BINS,
    Greatest,
    LeastDivergence,
    best_end,
)

SAMPLES = np.random.default_rng(0).normal(size=(40, 3, 8, 8)).astype("float32")


def _samples() -> Iterator[tuple[Any, int]]:
    return ((one, 1) for one in SAMPLES)  # with a label, as readers for training


def _batches() -> Iterator[tuple[Any]]:
    return ((SAMPLES[at : at + 10],) for at in range(0, 40, 10))


@pytest.fixture
def model(tmp_path: Path) -> str:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 3, 8, 8])
        y = layers.pool2d(layers.conv2d(x, 8, 3, act="relu"), 2, "max", 2)
        y = layers.fc(y + layers.conv2d(y, 8, 1), 6)
    exe, scope = fluid.Executor(), fluid.Scope()
    exe.run(startup, scope=scope)
    with fluid.scope_guard(scope):
        fluid.io.save_inference_model(str(tmp_path / "float"), ["x"], [y], exe, main)
    return str(tmp_path / "float")


def _outcome(folder: str) -> tuple[fluid.Program, Any]:
    exe, scope = fluid.Executor(), fluid.Scope()
    with fluid.scope_guard(scope):
        program, feeds, fetches = fluid.io.load_inference_model(folder, exe)
        return program, exe.run(program, feed={feeds[0]: SAMPLES}, fetch_list=fetches)[0]


@pytest.mark.parametrize("algorithm", ["KL", "abs_max"])
@pytest.mark.parametrize("settings", [{}, {"is_full_quantize": True}])
@pytest.mark.parametrize("weights", ["abs_max", "channel_wise_abs_max"])
def test_results_are_nearly_those_of_the_model(
    model: str, algorithm: str, settings: dict[str, Any], weights: str
) -> None:
    made = PostTrainingQuantization(
        executor=fluid.Executor(),
        scope=fluid.Scope(),
        model_dir=model,
        sample_generator=_samples,
        algo=algorithm,
        weight_quantize_type=weights,
        **settings,
    )
    made.quantize()
    made.save_quantized_model(f"{model}8")
    (_, wanted), (program, found) = _outcome(model), _outcome(f"{model}8")
    types = [op.type for op in program.global_block().ops]
    assert types.count("fake_quantize_range_abs_max") == 3
    assert ("fake_quantize_dequantize_moving_average_abs_max" in types) is bool(settings)
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert 1e-6 < error < (0.15 if algorithm == "KL" else 0.05)


@pytest.mark.parametrize("batches", [None, 2])
def test_scales_are_the_greatest_magnitudes_of_the_batches(model: str, batches: int | None) -> None:
    scope = fluid.Scope()
    made = PostTrainingQuantization(
        fluid.Executor(), scope, model, batch_generator=_batches, batch_nums=batches, algo="direct"
    )
    made.quantize()
    found = np.array(scope.find_var("x.scale").get_tensor()).item()
    assert found == np.abs(SAMPLES[: 10 * (batches or 4)]).max()
    whole = np.array(scope.find_var("conv2d_0.w_0").get_tensor())
    np.testing.assert_array_equal(whole, whole.round())
    assert np.abs(whole).max() == 127


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"model_dir": None}, "executor and model_dir"),
        ({"batch_generator": _batches}, "one of sample_generator and batch_generator"),
        ({"sample_generator": None}, "one of sample_generator and batch_generator"),
        ({"algo": "mse"}, "Unknown algo : 'mse'"),
        ({"quantizable_op_type": ["lookup_table"]}, "Unknown quantizable_op_type"),
    ],
)
def test_wrong_settings_are_told(settings: dict[str, Any], says: str) -> None:
    given = {"executor": fluid.Executor(), "model_dir": "x", "sample_generator": _samples}
    with pytest.raises(ValueError, match=says):
        PostTrainingQuantization(**given | settings)


def test_no_data_and_no_model_are_told(model: str) -> None:
    made = PostTrainingQuantization(
        fluid.Executor(), fluid.Scope(), model, sample_generator=_samples, batch_size=100
    )
    with pytest.raises(ValueError, match="gave no batch"):
        made.quantize()
    with pytest.raises(ValueError, match="quantize"):
        made.save_quantized_model("nowhere")


def _plain_divergence(counts: Any, end: int, levels: int) -> float:
    """As `best_end` compares, one bin after the other."""
    there = [float(one) for one in counts[:end]]
    told = [0.0] * end
    for level in range(levels):
        bins = [at for at in range(end) if at * levels // end == level and counts[at]]
        for at in bins:
            told[at] = sum(counts[one] for one in bins) / len(bins)
    there[-1] += float(sum(counts[end:]))
    if not sum(told):
        return np.inf
    cut_alone = any(p and not q for p, q in zip(there, told, strict=True))
    total = 0.0
    for p, q in zip(there, told, strict=True):
        p, q = p / sum(there), q / sum(told)
        total += p * np.log(p / (max(q, 1e-12) if cut_alone else q)) if p else 0.0
    return total


@pytest.mark.parametrize("seed", range(10))
def test_the_best_end_is_that_of_least_divergence(seed: int) -> None:
    draw = np.random.default_rng(seed)
    counts = np.floor(draw.exponential(30, 40) * np.exp(-np.arange(40) / 6))
    counts[draw.integers(40)] += 5
    levels = int(draw.integers(3, 9))
    found = best_end(counts, levels)
    counts[0] = 0
    last = int(np.flatnonzero(counts)[-1]) + 1
    enough = next(end for end in range(last + 1) if sum(counts[:end]) >= 0.999 * sum(counts))
    ends = range(min(max(levels, enough), last), last + 1)
    wanted = [_plain_divergence(counts, end, levels) for end in ends]
    assert _plain_divergence(counts, found, levels) == pytest.approx(min(wanted))


@pytest.mark.parametrize("kind", [Greatest, lambda: LeastDivergence(128)])
def test_thresholds_know_no_order_of_batches(kind: Callable[[], Any]) -> None:
    batches = [torch.randn(5000) * size for size in (0.3, 1.0, 0.0, 2.5)]
    found = []
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
        threshold = kind()
        for at in order:
            threshold.see(batches[at])
        found.append(threshold.found())
    greatest = max(float(one.abs().max()) for one in batches)
    assert found[0] == pytest.approx(found[1], rel=0.25)
    assert all(0.2 * greatest < one <= 2 * greatest for one in found)


def test_a_background_is_not_all_that_is_kept() -> None:
    threshold = LeastDivergence(128)
    threshold.see(torch.cat([torch.full((90_000,), 0.36), 5 * torch.rand(10_000)]))
    assert threshold.found() > 4.5


def test_a_lonely_outlier_is_cut() -> None:
    threshold = LeastDivergence(128)
    threshold.see(torch.cat([torch.rand(100_000), torch.tensor([50.0])]))
    assert threshold.found() < 10
    nothing = LeastDivergence(128)
    nothing.see(torch.zeros(10))
    assert nothing.found() == 0
    assert best_end(np.zeros(BINS), 128) == BINS


@pytest.mark.parametrize("seed", range(5))
def test_bins_widen_as_if_all_values_were_seen_at_once(seed: int) -> None:
    values = torch.from_numpy(np.random.default_rng(seed).exponential(0.1, 20_000)).clamp_(max=1.0)
    values[0] = 1.0  # so that four times as much is two times two
    apart, once = LeastDivergence(128), LeastDivergence(128)
    for batch in (values, 4 * values, 2 * values):
        apart.see(batch)
    once.see(torch.cat([values, 4 * values, 2 * values]))
    assert apart.found() == pytest.approx(once.found(), rel=0.02)


def test_zeros_do_not_count() -> None:
    values = torch.from_numpy(np.random.default_rng(0).exponential(1.0, 20_000)) + 0.01
    without, among = LeastDivergence(16), LeastDivergence(16)
    without.see(values)
    among.see(torch.cat([values, torch.zeros(2_000_000)]))
    assert among.found() == without.found()

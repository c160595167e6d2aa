"""Which products are by panels: what was told, or found out by trying, and of which sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from refluid.kernels.panels import choice


def test_what_is_faster_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for told, taken in ((0.0, False), (1.0, False), (1.5, True)):
        monkeypatch.setattr(choice.of_one, "told", told)
        monkeypatch.setattr(choice.of_repeated, "told", told)
        assert choice.pays(700, 650, 2600) is taken
        assert choice.pays_repeated(20, 650, 2600, 35) is taken
        assert choice.pays(700, 2600, 650) is taken
    assert not choice.pays(2600, 700, 511)  # narrow
    assert not choice.pays(63, 2600, 2600)
    assert not choice.pays(64, 512, 1024)  # small
    assert not choice.pays_repeated(65, 650, 2600, 35)
    assert not choice.pays_repeated(1, 650, 2600, 35)
    assert not choice.pays_repeated(20, 650, 2600, 5)
    assert not choice.pays_repeated(20, 65, 2000, 35)


def test_each_size_is_tried_where_one_product_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By sizes, threads and how the factors lie, once; the faster way is the one that is."""
    tried: list[tuple[Any, ...]] = []

    def is_faster(_ours: Any, usual: Any, given: Any) -> bool:
        tried.append((usual, *(part for one in given for part in (one.shape, one.stride()))))
        return given[1].stride(1) != 1

    monkeypatch.setattr(choice, "is_faster", is_faster)
    monkeypatch.setattr(choice, "_known", {})
    for name, taken in ((1.0, False), (1.1, True), (0.9, False), (1.2, True), (0.8, False)):
        monkeypatch.setattr(choice, "of_one", lambda: name)  # noqa: B023
        monkeypatch.setattr(choice.of_one, "told", None, raising=False)
        near = 0.85 <= name < 1.15
        # Far from equal, or too large to be tried: as the one product was.
        assert choice.pays(4096, 2048, 1024) is taken
        for right in (0, 1):
            for rows in (260, 300, 511):
                assert choice.pays(rows, 1024, 1030, 0, right) is (bool(right) if near else taken)
    assert {one[1:] for one in tried} == {
        ((260, 1024), (1024, 1), (1024, 1030), (1030, 1)),
        ((260, 1024), (1024, 1), (1024, 1030), (1, 1024)),
    }
    assert len(tried) == 2
    monkeypatch.setattr(choice, "of_one", lambda: 1.1)
    monkeypatch.setattr(choice.of_one, "told", None, raising=False)
    monkeypatch.setattr(choice, "_MOST", 2)
    assert choice.pays(600, 1024, 1030)
    assert len(choice._known) == 2


@pytest.mark.parametrize("speed", [0.9, 2.0])
def test_the_rival_is_the_library_that_would_compute_it(
    speed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rivals: list[Any] = []
    monkeypatch.setattr(choice, "_by_onednn", lambda a, b: a @ b)
    monkeypatch.setattr(choice, "is_faster", lambda _ours, usual, _: not rivals.append(usual))
    monkeypatch.setattr(choice, "onednn_speed", lambda _rows: speed)
    assert choice._is_faster(64, 512, 1024, 0, 0) == 1.0
    assert rivals == [torch.mm if speed < 1 else choice._by_onednn]


def test_it_is_found_out_by_trying_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    speed = choice.PanelSpeed(lambda: asked.append(1) or 2.0)
    monkeypatch.setattr(choice, "vector_bits", lambda: 256)
    assert speed() == speed() == 2.0
    assert asked == [1]


def test_speeds_are_those_of_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "shortest", lambda ours, its, *_: (_run(ours), 3 * _run(its)))
    small = (7, 20, 33)
    assert choice._speed(small, 1, choice._laid_for_one) == 3.0
    assert choice._speed(small, 1, choice._laid_before) == 3.0


def _run(way: object) -> float:
    assert callable(way)
    assert way().shape == (7, 33)
    return 1.0


def test_nothing_is_where_registers_are_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "vector_bits", lambda: 0)
    assert choice.PanelSpeed(lambda: 2.0)() == 0.0


def test_a_right_factor_is_laid_for_several_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few rows, as those of a loop's steps, or of parts that are large together."""
    for told in (0.9, 1.5):
        monkeypatch.setattr(choice.of_one, "told", told)
        monkeypatch.setattr(choice.of_repeated, "told", 2.4 - told)
        assert choice.pays_shared(170, 256, 3072, 5) is (told > 1)
        assert choice.pays_shared(20, 650, 2600, 35) is (told < 1)
        assert not choice.pays_shared(700, 650, 2600, 1)  # it lays its factors itself
    assert not choice.pays_shared(170, 256, 3072, 1)
    assert not choice.pays_shared(170, 256, 511, 50)  # narrow
    assert not choice.pays_shared(170, 256, 3072, 2)  # small
    assert not choice.pays_shared(20, 650, 2600, 5)


def test_a_shared_right_factor_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it lies, with what laying it takes, once for each size; unless it is large."""
    tried: list[tuple[Any, ...]] = []

    def is_faster(ours: Any, _usual: Any, given: Any) -> bool:
        tried.append(tuple(part for one in given for part in (one.shape, one.stride())))
        made: list[str] = []
        with monkeypatch.context() as patched:
            for name in ("lay_panels", "laid_product"):
                patched.setattr(choice, name, lambda *_, name=name: made.append(name))
            ours(*given)
        assert made == ["lay_panels", *["laid_product"] * min(times, 4)]
        return times > 4

    monkeypatch.setattr(choice, "is_faster", is_faster)
    monkeypatch.setattr(choice, "apart", lambda way, _threads: way())
    monkeypatch.setattr(choice, "vector_bits", lambda: 256)
    monkeypatch.setattr(choice, "_known", {})
    for times in (3, 9, 5, 3):
        assert choice.pays_shared(250, 256, 2048, times, 1, 0) is (times > 4)
    assert set(tried) == {((250, 256), (1, 250), (256, 2048), (2048, 1))}
    assert len(tried) <= 2 + 2  # of three or four, and of more: by one library or both
    assert not choice.pays_shared(250, 256, 5000, 9)
    monkeypatch.setattr(choice, "vector_bits", lambda: 0)
    assert not choice.pays_shared(250, 256, 2048, 9)


def test_more_sizes_than_are_tried_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_known", {})
    monkeypatch.setattr(choice, "_MOST", 0)
    monkeypatch.setattr(choice, "vector_bits", lambda: 256)
    assert not choice.pays_shared(250, 256, 2048, 9)

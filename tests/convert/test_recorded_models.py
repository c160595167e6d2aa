"""The networks of recorded models as PyTorch: they agree, or the page says what is lacking."""

from __future__ import annotations

from pathlib import Path

import pytest

from refluid.convert.table import NoCounterpart
from scripts.convert_recordings import BOUND, PAGE, error_of
from tests.golden import GOLDEN, recorded_models

QUICK = """bert_classify bert_pretrain book_fit_a_line book_mnist_cnn book_recommender
    book_resnet_cifar10 book_word2vec deepfm dialogue_domain lm_static
    ncf_mlp quora_decatt senta_gru ssr transformer xdeepfm"""


def check(name: str) -> None:
    try:
        error = error_of(GOLDEN / "zoo" / name)
    except NoCounterpart as reason:
        text = str(reason)
        page = Path(PAGE).read_text(encoding="utf-8")
        lacking = text.split(": ", 1)[1].split(", ") if text.startswith("no PyTorch") else [text]
        assert [one for one in lacking if f"| {one} |" not in page] == []
        return
    assert error <= BOUND


@pytest.mark.parametrize("name", [one for one in QUICK.split() if one in recorded_models()])
def test_quick_ones(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(recorded_models()) - set(QUICK.split())))
def test_all_others(name: str) -> None:
    check(name)

"""Functions called under settings of torch, which are the process's."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch

from refluid.kernels import settings
from refluid.kernels.settings import under


def test_settings_hold_during_the_call_only() -> None:
    seen = []

    def body(fails: bool) -> None:
        seen.append(torch.backends.mkldnn.enabled)
        if fails:
            raise ValueError

    run = under((("onednn", False),), body)
    run(False)
    with pytest.raises(ValueError):
        run(True)
    assert seen == [False, False]
    assert torch.backends.mkldnn.enabled


@pytest.mark.parametrize("name", settings._PLACES)
def test_every_setting_is_set_and_put_back(name: str) -> None:
    place, attribute = settings._PLACES[name]
    former = getattr(place, attribute)
    other = "tf32" if name == "products" else not former
    seen: list[Any] = []
    under(((name, other),), lambda: seen.append(getattr(place, attribute)))()
    assert seen == [other]
    assert getattr(place, attribute) == former


def test_threads_with_other_settings_wait_and_equal_ones_do_not() -> None:
    wrong: list[bool] = []
    # Two threads of one setting meet within its work: that ends only if they needn't wait.
    meeting = [threading.Barrier(2, timeout=60) for _ in range(2)]

    def work(wanted: bool) -> None:
        meeting[wanted].wait()
        for _ in range(5):
            time.sleep(0.0005)
            if torch.backends.mkldnn.enabled != wanted:
                wrong.append(wanted)

    def loop(wanted: bool) -> None:
        for _ in range(20):
            under((("onednn", wanted),), work)(wanted)

    threads = [threading.Thread(target=loop, args=(bool(one % 2),)) for one in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not any(one.broken for one in meeting)
    assert torch.backends.mkldnn.enabled

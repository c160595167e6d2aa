"""`paddle.device` and `paddle.device.cuda`: with a GPU, and what is said without one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from refluid import paddle
from refluid.core.errors import EnforceNotMet
from refluid.paddle import device
from refluid.paddle.device import cuda

NEED_A_GPU = "get_device_name get_device_capability get_device_properties memory_reserved"
NEED_A_GPU += " memory_allocated max_memory_allocated max_memory_reserved"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu() -> None:
    assert cuda.device_count() == 0 and device.get_all_custom_device_type() == []
    cuda.empty_cache()
    for name in NEED_A_GPU.split():
        with pytest.raises(ValueError, match=rf"cuda\.{name} needs a GPU"):
            getattr(cuda, name)()
    for make in (device.Stream, device.Event, device.current_stream, device.synchronize):
        with pytest.raises(TypeError, match="should be a GPU"):
            make()
        with pytest.raises(EnforceNotMet, match="no GPU 1 here"):
            make("gpu:1")
    with device.stream_guard(None):
        pass


def test_a_priority_that_is_none() -> None:
    with pytest.raises(ValueError, match="not 7"):
        device.Stream(priority=7)


def test_all_names_of_cuda_are_there() -> None:
    assert set(cuda.__all__) <= set(dir(paddle.device.cuda))


@pytest.mark.gpu
def test_streams_and_marks() -> None:
    x: Any = torch.randn(512, 512, device="cuda")
    begin, end = device.Event(enable_timing=True), device.Event(enable_timing=True)
    other = device.Stream(priority=1)
    with device.stream_guard(other):
        assert device.current_stream().stream_base == other.stream_base
        begin.record()
        y = x @ x
        other.record_event(end)
    assert device.current_stream().stream_base != other.stream_base
    device.current_stream().wait_event(end)
    former = device.set_stream(other)
    assert device.set_stream(former).stream_base == other.stream_base
    device.current_stream().wait_stream(other)
    device.synchronize()
    assert begin.query() and other.query() and begin.elapsed_time(end) > 0
    torch.testing.assert_close(y, x @ x)


@pytest.mark.gpu
def test_memory_and_kind() -> None:
    held = torch.ones(1 << 20, device="cuda")
    assert cuda.memory_allocated() >= held.numel() * 4 <= cuda.max_memory_allocated()
    assert cuda.memory_reserved("gpu:0") >= cuda.memory_allocated(0)
    assert cuda.get_device_name() == cuda.get_device_properties().name
    assert len(cuda.get_device_capability()) == 2 and cuda.device_count() > 0

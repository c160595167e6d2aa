"""Places are values with Fluid's names; counts come from the environment."""

from __future__ import annotations

import pytest
import torch

from refluid.core import flags, places
from refluid.core.errors import EnforceNotMet
from refluid.core.places import CPUPlace, CUDAPinnedPlace, CUDAPlace

NO_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")


@pytest.mark.parametrize(
    ("place", "text", "device"),
    [
        (CPUPlace(), "CPUPlace", "cpu"),
        (CUDAPlace(0), "CUDAPlace(0)", "cuda:0"),
        (CUDAPlace(3), "CUDAPlace(3)", "cuda:3"),
        (CUDAPinnedPlace(), "CUDAPinnedPlace", "cpu"),
    ],
)
def test_name_and_device(place: places.Place, text: str, device: str) -> None:
    assert str(place) == text
    assert place.device == torch.device(device)


def test_equal_by_value() -> None:
    assert CPUPlace() == CPUPlace()
    assert CUDAPlace(1) == CUDAPlace(1) != CUDAPlace(0)
    assert len({CPUPlace(), CUDAPinnedPlace(), CUDAPlace(0)}) == 3
    assert len({CPUPlace(), CPUPlace(), CUDAPlace(1), CUDAPlace(1)}) == 2
    with pytest.raises(AttributeError):
        CUDAPlace(1).id = 2  # type: ignore[misc]


@pytest.mark.parametrize(("number", "error"), [(-1, EnforceNotMet), ("0", TypeError)])
def test_bad_device_numbers(number: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        CUDAPlace(number)  # type: ignore[arg-type]


def test_cpu_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", "3")
    assert places.cpu_places() == [CPUPlace()] * 3
    assert places.cpu_places(2) == [CPUPlace()] * 2
    monkeypatch.delenv("CPU_NUM")
    assert places.cpu_places() == [CPUPlace()]


@pytest.mark.parametrize("text", ["two", "0", "-1", "1.5"])
def test_bad_cpu_num(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("CPU_NUM", text)
    with pytest.raises(ValueError, match="CPU_NUM"):
        places.cpu_places()


@NO_CUDA
def test_without_cuda() -> None:
    assert not places.is_compiled_with_cuda()
    assert places.get_cuda_device_count() == 0
    places.require_available(CPUPlace())
    for place in (CUDAPlace(0), CUDAPinnedPlace()):
        with pytest.raises(EnforceNotMet, match="no CUDA device"):
            places.require_available(place)
    for listed in (places.cuda_places, places.cuda_pinned_places):
        with pytest.raises(AssertionError, match="Not compiled with CUDA"):
            listed()


def test_selected_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert places.cuda_places() == [CUDAPlace(0), CUDAPlace(1)]
    assert places.cuda_places([1]) == places.cuda_places(1) == [CUDAPlace(1)]
    assert places.cuda_places(0) == [CUDAPlace(0)]
    monkeypatch.setenv("FLAGS_selected_gpus", "1")
    assert places.cuda_places() == [CUDAPlace(1)]
    with flags.override({"FLAGS_selected_gpus": "0"}):
        assert places.cuda_places() == [CUDAPlace(0)]
    monkeypatch.setenv("FLAGS_selected_gpus", "one")
    with pytest.raises(ValueError, match="must look like"):
        places.cuda_places()
    with pytest.raises(EnforceNotMet, match="has 2 CUDA"):
        places.require_available(CUDAPlace(2))


def test_no_place() -> None:
    with pytest.raises(TypeError, match="expected a place such as CPUPlace"):
        places.require_available("cpu")  # type: ignore[arg-type]

"""Places of accelerators that a plugin of torch brings: by a device made for the test."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.cpp_extension import include_paths, library_paths

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from refluid.core.places import CustomPlace, place_of

HERE = Path(__file__).parent
KINDS = [fluid.XPUPlace, fluid.NPUPlace, fluid.MLUPlace]
COMPILER = shutil.which("c++")


@pytest.mark.parametrize("kind", KINDS)
def test_numbers(kind: Any) -> None:
    assert kind(1) == kind(1) != kind(0) != fluid.CUDAPlace(0)
    assert (kind().id, str(kind(3))) == (0, f"{kind.__name__}(3)")
    with pytest.raises(TypeError, match="a device number, not '0'"):
        kind("0")
    with pytest.raises(EnforceNotMet, match="device numbers are 0 to"):
        kind(-1)


def test_custom_types() -> None:
    place = CustomPlace("other", 2)
    assert (place.type, place.id, str(place)) == ("other", 2, "CustomPlace('other', 2)")
    assert CustomPlace("npu", 0) != fluid.NPUPlace(0) != fluid.XPUPlace(0)
    with pytest.raises(TypeError, match="the name of a device type"):
        CustomPlace("npu:0")


def test_places_of_devices() -> None:
    found = [place_of(torch.device(name)) for name in ("cpu", "cuda:1", "xpu:1", "ipu")]
    assert found == [fluid.CPUPlace(), fluid.CUDAPlace(1), fluid.XPUPlace(1), fluid.IPUPlace()]


@pytest.mark.parametrize(
    "place", [fluid.NPUPlace(0), fluid.MLUPlace(1), fluid.IPUPlace(), CustomPlace("other")]
)
def test_without_such_a_device(place: Any) -> None:
    message = rf"{place.type!r}, which .* would bring.*refluid run --place cpu"
    with pytest.raises(EnforceNotMet, match=message):
        fluid.Executor(place)
    with pytest.raises(EnforceNotMet, match=message):
        fluid.LoDTensor().set(np.zeros(3, np.float32), place)
    with pytest.raises(EnforceNotMet, match=message), fluid.dygraph.guard(place):
        pass
    assert not fluid.core.is_compiled_with_custom_device(place.type)


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the device's compiled extension."""
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("device")
    headers = [f"-isystem{path}" for path in (*include_paths(), sysconfig.get_path("include"))]
    libraries = [f"-L{path}" for path in library_paths()]
    command = [COMPILER, "-std=c++20", "-O0", "-fPIC", "-shared", *headers]
    command += ["-DTORCH_EXTENSION_NAME=refluid_test_device", str(HERE / "device.cpp"), *libraries]
    command += ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    target = folder / "refluid_test_device.so"
    subprocess.run([*command, "-o", str(target)], check=True, capture_output=True)
    return folder


@pytest.mark.slow  # a C++ compiler reads torch's headers
@pytest.mark.parametrize(("name", "kind"), [("npu", "NPUPlace"), ("other", "CustomPlace")])
def test_training_on_such_a_device(extension: Path, name: str, kind: str) -> None:
    """The same losses as on the processor: one place, replicas, dygraph, sequences, files."""
    command = [sys.executable, str(HERE / "training.py"), name, kind, str(extension)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for what, (host, device) in json.loads(ran.stdout.splitlines()[-1]).items():
        np.testing.assert_allclose(device, host, rtol=1e-5, err_msg=what)

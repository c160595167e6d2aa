"""Kernels that several threads watch for the first time at once have one object each."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own, which has seen few kernels; threads meet where torch makes their objects.
_RACE = """
import threading, time
import torch
from refluid.kernels import watching

def slowed(make):
    def made(*given):
        found = make(*given)
        time.sleep(0.002)
        return found
    return made

if {off}:
    for kind in (torch._ops._OpNamespace, torch._ops.OpOverloadPacket):
        kind.__getattr__ = watching.made_by[kind]
torch._ops._get_packet = slowed(torch._ops._get_packet)
torch._C._get_operation_overload = slowed(torch._C._get_operation_overload)
aten, seen = torch.ops.aten, []

class Watch(watching.DispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen.append(func)
        return func(*args, **(kwargs or {{}}))

def watch(call, start):
    start.wait()
    with Watch():
        call([torch.ones(2)])

calls = [torch._foreach_cos_, torch._foreach_sin_, torch._foreach_tan_, torch._foreach_erf_]
for call in calls:
    start = threading.Barrier(3)
    threads = [threading.Thread(target=watch, args=(call, start)) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
held = lambda one: getattr(getattr(aten, one.overloadpacket.__name__), one._overloadname)
print(len(seen), len([one for one in seen if held(one) is not one]))
"""


def race(*, off: bool) -> tuple[int, int]:
    """How many kernels were seen, and how many of them by an object that torch doesn't keep."""
    code = _RACE.format(off=off)
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    seen, lost = map(int, told.stdout.split())
    return seen, lost


def test_threads_see_the_same_objects() -> None:
    seen, lost = race(off=False)
    assert (seen >= 12, lost) == (True, 0)


@pytest.mark.slow
def test_the_race_is_one() -> None:
    """With torch's own way threads see several objects, or the process is gone."""
    try:
        assert race(off=True)[1] > 0
    except subprocess.CalledProcessError as error:
        assert error.returncode < 0

"""Work that goes on as the interpreter ends: it is left, and the process ends as it would."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

# The work is where the compiler is at its worst: Python code that C++ calls, all the time.
_SCRIPT = """
import sys, threading
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from refluid.core.background import BackgroundThread

class Counted(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        begun.set()
        return func(*args, **(kwargs or {}))

def work():
    with Counted():
        one = torch.ones(3)
        while True:
            torch.add(one, one)

begun, made = threading.Event(), []
for number in range(int(sys.argv[1])):
    made.append(BackgroundThread(work, f"work {number}"))
    made[-1].start()
begun.wait()
print("done", flush=True)
"""


def _ended(script: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(script)
    command = [sys.executable, str(path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_process_ends_as_it_would(tmp_path: Path) -> None:
    ended = _ended(_SCRIPT, tmp_path, "2")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


def test_who_waits_for_another_program_is_not_waited_for(tmp_path: Path) -> None:
    waits = _SCRIPT.replace(
        "        while True:", "        begun.set()\n        import time"
    ).replace("            torch.add(one, one)", "        time.sleep(60)")
    begun = time.monotonic()
    ended = _ended(waits, tmp_path, "1")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")
    assert time.monotonic() - begun < 50


def test_it_is_asked_again_where_a_callback_swallowed_it(tmp_path: Path) -> None:
    """As those of weak references do, which import locks have."""
    script = _SCRIPT.replace("        begun.set()\n", "").replace(
        "        while True:",
        """        import weakref
        class Held: pass
        def late(_reference):
            begun.set()
            while True: torch.add(one, one)
        held = Held()
        reference = weakref.ref(held, late)
        del held
        while True:""",
    )
    ended = _ended(script, tmp_path, "1")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")

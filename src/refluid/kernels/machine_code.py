"""Machine code of compiled loops, kept as shared libraries: made by numba, loaded without it.

A loop and one kind of arguments make one library. Its only function takes addresses and sizes, so
that no Python object is touched. Libraries lie beside the source, as Python's own compiled code,
or in the user's cache; the name tells the code, the processor and the versions it was made for.
Where there is no linker, or the code needs more than arithmetic (it makes arrays, say), numba
compiles the loop in each process.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from string import Template
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from refluid.kernels.argument_kinds import Elements
from refluid.kernels.by_numba import Late, NumbaLoop
from refluid.kernels.collecting import without_collections
from refluid.kernels.loop_text import as_text, text_of
from refluid.kernels.packed_calls import FAILED, caller_of
from refluid.kernels.processor import vector_bits

_LOGGER = logging.getLogger("refluid")
_ENTRY = "refluid_entry"
# What the C library has, and every process has loaded.
_FROM_C = {"memset", "memcpy", "memmove", "log", "logf", "sqrt", "sqrtf", "cos", "cosf"}
_OF_512_BITS = ("avx512", "avx10")
_PROCESSOR = Path("/proc/cpuinfo")
_TOLD = ("model name", "flags", "Features", "CPU part")

# The loops that have no library in this process, with the reason.
unkept: dict[str, str] = {}


def kept_entry(
    loop: NumbaLoop, kinds: Any, otherwise: Callable[..., Any]
) -> Callable[..., Any] | None:
    """The loop for arguments of these kinds, from its library; None where it can't have one.

    Called with arguments of other kinds, it hands them to `otherwise`.
    """
    name = f"{loop.function.__name__}-{_digest(loop, kinds)}.so"
    try:
        entry: Any = _loaded(loop, kinds, name)[_ENTRY]
        entry.argtypes, entry.restype = [ctypes.c_char_p], ctypes.c_int64
        return caller_of(loop.entered(entry), otherwise, kinds)
    except (OSError, RuntimeError, AttributeError, _CannotBeKept) as error:
        unkept[loop.function.__name__] = str(error)
        _LOGGER.debug("%s is compiled in each process: %s", loop.function.__name__, error)
        return None


def _loaded(loop: NumbaLoop, kinds: Any, name: str) -> ctypes.CDLL:
    for folder in _folders(loop):
        try:
            return ctypes.CDLL(str(folder / name))
        except OSError:
            continue  # there is none, or a damaged one, which is replaced
    return ctypes.CDLL(str(_make(loop, kinds, name)))


class _CannotBeKept(Exception):
    """Why the code of a loop can't be a library."""


# -- making -------------------------------------------------------------------

# numba's own functions have their result and what they raise as pointers.
_SHIM = Template("""
define i64 @$entry(ptr %packed) {
  %found = alloca i64
  %raised = alloca ptr
  store i64 0, ptr %found
  %status = call i32 @$name(ptr %found, ptr %raised, $packed)
  %value = load i64, ptr %found
  %bad = icmp ne i32 %status, 0
  %result = select i1 %bad, i64 $failed, i64 %value
  ret i64 %result
}
""")


def _make(loop: NumbaLoop, kinds: Any, name: str) -> Path:
    """Compiles the loop for arguments of these kinds to a library in the first folder that does."""
    if not linker():
        raise _CannotBeKept("there is no linker")
    with without_collections():
        code = _object_code(_module(loop, kinds))
    for folder in _folders(loop, written=True):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as work:
                raw, made = Path(work, "code.o"), Path(work, name)
                raw.write_bytes(code)
                subprocess.run([linker(), "-shared", "-o", made, raw], check=True)
                os.replace(made, folder / name)
        except (OSError, subprocess.CalledProcessError) as error:
            _LOGGER.debug("no machine code is kept in %s: %s", folder, error)
            continue
        return folder / name
    raise _CannotBeKept("no folder takes it")


def _module(loop: NumbaLoop, kinds: Any) -> str:
    """LLVM's text of _ENTRY, of packed arguments, and of all that it calls."""
    numba: Any = import_module("numba")
    views: dict[str, Any] = {"int64": numba.types.int64}
    places = iter(range(sys.maxsize))

    def given(kind: Any) -> str:
        if isinstance(kind, Elements):
            view = f"to_{kind.name}"
            views[view] = numba.types.CPointer(numba.from_dtype(np.dtype(kind.name)))
            address = next(places)
            sizes = "".join(f"int64[{next(places)}], " for _ in range(kind.rank))
            return f"carray({view}[{address}], ({sizes}))"
        if isinstance(kind, tuple):
            return f"({''.join(f'{given(one)}, ' for one in kind)})"
        dtype = np.dtype(kind)
        view = "float64" if dtype.kind == "f" else "int64"
        views.setdefault(view, numba.from_dtype(np.dtype(view)))
        names[f"as_{dtype.name}"] = numba.from_dtype(dtype)
        return f"as_{dtype.name}({view}[{next(places)}])"

    names: dict[str, Any] = {"loop": loop.inlined, "carray": numba.carray}
    text = ", ".join(given(kind) for kind in kinds)
    exec(f"def entry({', '.join(views)}):\n    return loop({text})", names)
    types = tuple(numba.types.CPointer(one) for one in views.values())
    made = numba.njit(types, nogil=True, error_model="numpy", **as_text())(names["entry"])
    (overload,) = made.overloads.values()
    returned = overload.signature.return_type
    if not isinstance(returned, numba.types.Integer | numba.types.Boolean | numba.types.NoneType):
        raise _CannotBeKept(f"it gives {returned}")
    shim = _SHIM.substitute(
        entry=_ENTRY,
        name=overload.fndesc.llvm_func_name,
        packed=", ".join(["ptr %packed"] * len(views)),
        failed=FAILED,
    )
    return text_of(overload.library) + shim


# Called where an array that numba owns is let go: the arrays here are the caller's.
_LET_GO = re.compile(r"^declare void @NRT_MemInfo_call_dtor\(.*$", re.MULTILINE)
_NEVER = """
define internal void @NRT_MemInfo_call_dtor(ptr %0) {
  unreachable
}
"""


def _object_code(text: str) -> bytes:
    """Position-independent machine code of a module, which needs nothing but the C library."""
    llvm: Any = import_module("llvmlite.binding")

    module = llvm.parse_assembly(_LET_GO.sub(_NEVER, text))
    needed = {one.name for one in (*module.functions, *module.global_variables) if _is_needed(one)}
    if more := sorted(needed - _FROM_C):
        raise _CannotBeKept(f"it needs {', '.join(more)}")
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=_features(llvm.get_host_cpu_features()),
        opt=3,
        reloc="pic",
        codemodel="small",
    )
    code: bytes = machine.emit_object(module)
    return code


def _features(known: Any) -> str:
    """What code may use of a processor's features: no wider registers than torch does."""
    if vector_bits() == 256:
        known.update({name: False for name in known if name.startswith(_OF_512_BITS)})
    return str(known.flatten())


def _is_needed(one: Any) -> bool:
    return one.is_declaration and not one.name.startswith("llvm.")


# -- where it is kept ---------------------------------------------------------


@cache
def linker() -> str:
    """What makes shared libraries here; empty where nothing does."""
    found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang", "ld", "ld.lld"))), "")
    return (found or "") if sys.platform == "linux" else ""


def _folders(loop: NumbaLoop, *, written: bool = False) -> Iterator[Path]:
    """Where its libraries are looked for; written: where they may be put."""
    if not (written and sys.dont_write_bytecode):
        yield Path(loop.function.__code__.co_filename).parent / "__pycache__"
    yield Path.home() / ".cache" / "refluid" / "loops"


def _digest(loop: NumbaLoop, kinds: Any) -> str:
    found = hashlib.sha256(repr((kinds, _SHIM.template, _machine())).encode())
    for part in _parts(loop.function, set()):
        found.update(part)
    return found.hexdigest()[:24]


def _parts(function: FunctionType, seen: set[str]) -> Iterator[bytes]:
    """What the code of a function follows from: its own, that of what it calls, and constants."""
    code = function.__code__
    yield from _instructions(code)
    for name in code.co_names:
        value = function.__globals__.get(name)
        if name in seen:
            continue
        seen.add(name)
        if isinstance(value, NumbaLoop):
            yield from _parts(value.function, seen)
        elif isinstance(value, Late):
            yield value.text
        elif isinstance(value, np.ndarray):
            yield value.tobytes() + str(value.dtype).encode()
        elif isinstance(value, int | float | np.generic):
            yield repr(value).encode()


def _instructions(code: CodeType) -> Iterator[bytes]:
    yield code.co_code + repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _instructions(one)
        else:
            yield repr(one).encode()


@cache
def _machine() -> tuple[str, ...]:
    """The processor and the versions that machine code is made for and by."""
    lines = _PROCESSOR.read_text().splitlines() if _PROCESSOR.exists() else [platform.processor()]
    first = {line.partition(":")[0].strip(): line for line in reversed(lines)}
    told = [first.get(name, "") for name in _TOLD] or lines[:1]
    bits = str(vector_bits())
    return (*told, bits, platform.machine(), version("numba"), version("llvmlite"), sys.version)

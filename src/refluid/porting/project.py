"""A project: its files, and for each script a verdict from all files that it imports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from refluid.porting.scanning import Finding, FindingKind, Scanned, scan_file

_SKIPPED = {".git", ".venv", "__pycache__", "build", "dist", "node_modules", "venv"}
_STOPS = {
    FindingKind.UNREADABLE: "can't be read",
    FindingKind.MISSING: "lacks",
    FindingKind.OPERATORS: "needs operators of its own (docs/custom_operators.md)",
    FindingKind.PACKAGE: "needs packages",
}
_NOTES = {
    FindingKind.PYTHON2: "translated from Python 2",
    FindingKind.OLD: "old names given back",
    FindingKind.CUDA: "names CUDA: without a GPU, --place cpu",
}


@dataclass(frozen=True)
class ProjectVerdict:
    """Whether a script can be expected to run, and what was found in its files.

    perhaps: it runs unless it calls a function that needs what isn't there.
    """

    script: str
    runs: bool
    perhaps: bool
    says: str
    findings: tuple[Finding, ...]


def check_project(folder: Path) -> list[ProjectVerdict]:
    """A verdict for each script of the folder (or for the one file) that uses paddle."""
    root = folder if folder.is_dir() else folder.parent
    files = {one.relative_to(root).as_posix(): one for one in _python_files(root)}
    scanned = {name: scan_file(path, name) for name, path in files.items()}
    chosen = [name for name, path in files.items() if folder.is_dir() or path == folder]
    verdicts = []
    for name in chosen:
        parts = _reached(name, scanned)
        uses = any(scanned[one].uses_paddle for one in parts)
        unreadable = any(one.kind is FindingKind.UNREADABLE for one in scanned[name].findings)
        if (scanned[name].is_script and uses) or unreadable or not folder.is_dir():
            verdicts.append(_verdict(name, parts, scanned, root))
    return verdicts


def _python_files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root).parts
        if path.is_file() and not any(part in _SKIPPED for part in inside):
            yield path


def _reached(script: str, scanned: dict[str, Scanned]) -> dict[str, bool]:
    """The script and all files of the project that it imports, near or far.

    Each with whether that needs a call: what a function imports is only met where it is called.
    """
    home = Path(script).parent
    bases = [home.as_posix(), ".", *((home / one).as_posix() for one in scanned[script].paths)]
    found = {script: False}
    for needs_call in (False, True):
        waiting = list(found)
        while waiting:
            name = waiting.pop()
            modules = scanned[name].imports | (scanned[name].later if needs_call else set())
            for module in modules:
                for one in _files_of(module, Path(name).parent, bases):
                    if one in scanned and one not in found:
                        found[one] = needs_call
                        waiting.append(one)
    return found


def _files_of(module: str, here: Path, bases: Iterable[str]) -> Iterator[str]:
    """Where a module may be: beside the script, in the project's root, or for `.name` beside it."""
    dots = len(module) - len(module.lstrip("."))
    inner = module.lstrip(".").replace(".", "/")
    places = [here.joinpath(*[".."] * (dots - 1))] if dots else [Path(one) for one in bases]
    for place in places:
        path = Path(*_without_up((place / inner).parts)).as_posix()
        yield from (f"{path}.py", f"{path}/__init__.py")


def _without_up(parts: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for part in parts:
        if part == ".." and kept:
            kept.pop()
        elif part != ".":
            kept.append(part)
    return kept


def _verdict(
    script: str, files: dict[str, bool], scanned: dict[str, Scanned], root: Path
) -> ProjectVerdict:
    own = {part for name in scanned for part in Path(name).with_suffix("").parts}
    added = [root / Path(script).parent / one for one in scanned[script].paths]
    found = tuple(
        replace(one, always=one.always and not needs_call)
        for file, needs_call in files.items()
        for one in scanned[file].findings
        if one.kind is not FindingKind.PACKAGE or not (one.what in own or _is_in(one.what, added))
    )
    stops = [one for one in found if one.kind in _STOPS]
    reasons = "; ".join(_reasons([one for one in stops if one.always]))
    if reasons:
        return ProjectVerdict(script, False, False, reasons, found)
    notes = _reasons(stops)
    if notes:
        says = f"runs unless it calls what {'; '.join(notes)}"
        return ProjectVerdict(script, False, True, says, found)
    kinds = {one.kind for one in found}
    notes = [says for kind, says in _NOTES.items() if kind in kinds]
    says = "runs" + (f" ({'; '.join(notes)})" if notes else "")
    return ProjectVerdict(script, True, False, says, found)


def _reasons(found: Iterable[Finding]) -> list[str]:
    reasons = []
    found = list(found)
    for kind, says in _STOPS.items():
        names = list(dict.fromkeys(one.what for one in found if one.kind is kind))
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            reasons.append(f"{says}: {', '.join(names[:3])}{more}")
    return reasons


def _is_in(module: str, folders: Iterable[Path]) -> bool:
    return any((one / module).is_dir() or (one / f"{module}.py").is_file() for one in folders)

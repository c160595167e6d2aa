"""The repository's pages as those of the site: where each goes, and links that lead there."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent.parent
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def page_places(root: Path) -> dict[str, str]:
    """File of the repository -> file of the site, both in Markdown or pictures."""
    places = {"README.md": "index.md", "examples/README.md": "examples/index.md"}
    places |= {name: name.lower() for name in ("CONTRIBUTING.md", "CHANGELOG.md")}
    for path in sorted((root / "docs").rglob("*.*")):
        name = path.relative_to(root).as_posix()
        places[name] = name.removeprefix("docs/")
    for path in sorted((root / "examples").glob("*.py")):
        places[f"examples/{path.name}"] = f"examples/{path.stem}.md"
    return places


def write_pages(root: Path, out: Path) -> list[str]:
    """Writes all pages; what links name that isn't there."""
    places, missing = page_places(root), []
    for name, place in places.items():
        source, target = root / name, out / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text, lost = relinked(root, name, source.read_text(encoding="utf-8"), places)
            target.write_text(text, encoding="utf-8")
            missing += [f"{name}: {one}" for one in lost]
        elif source.suffix == ".py":
            target.write_text(_example(source), encoding="utf-8")
        else:
            shutil.copyfile(source, target)
    return missing


def _example(source: Path) -> str:
    return f"# {source.name}\n\n```python\n{source.read_text(encoding='utf-8').rstrip()}\n```\n"


def relinked(root: Path, name: str, text: str, places: Mapping[str, str]) -> tuple[str, list[str]]:
    """A page with links as the site has them; those that lead nowhere.

    A link to a file that is no page of the site becomes its text.
    """
    lost: list[str] = []

    def changed(found: re.Match[str]) -> str:
        label, link = found[1], found[2]
        if re.match(r"[a-z]+:|#", link):
            return found[0]
        path, _, anchor = link.partition("#")
        meant = os.path.normpath(PurePosixPath(name).parent / path)
        if meant in places:
            start = str(PurePosixPath(places[name]).parent)
            there = os.path.relpath(places[meant], start) + (f"#{anchor}" if anchor else "")
            return found[0].replace(f"({link})", f"({there})")
        if not (root / meant).exists():
            lost.append(link)
        return label

    return _PICTURE.sub(changed, _LINK.sub(changed, text)), lost

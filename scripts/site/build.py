"""Builds the site: `python -m scripts.site.build`.

Pages of docs/, the README, the examples and the public names (their docstrings), plots drawn anew
of the recorded measurements. Nothing is downloaded: fonts and scripts are the theme's own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import yaml

from scripts.site.api import write_api
from scripts.site.pages import ROOT, page_places, write_pages

NAVIGATION = [
    {"Start": "index.md"},
    {"Moving a project": ["moving.md", "deviations.md", "model-zoo.md", "convert.md",
                          "recordings.md", "custom_operators.md"]},
    {"Training": ["paddle2.md", "dygraph.md", "feeding.md", "datasets.md", "data.md",
                  "strategies.md",
                  "collective.md", "mixed_precision.md", "inference.md", "profiling.md"]},
    {"Examples": "examples/index.md"},
    {"Speed": ["tune.md", "benchmarks.md", "tiers.md", "knobs.md"]},
    {"Public names": "api/index.md"},
    {"Inside": ["architecture.md", "operators.md", "passes.md", "fuzzing.md", "dependencies.md",
                "contributing.md", "changelog.md"]},
]  # fmt: skip


def navigation(pages: Iterable[str]) -> list[dict[str, object]]:
    """The table, with pages that it doesn't name in its last part."""
    *parts, (title, last) = [pair for entry in NAVIGATION for pair in entry.items()]
    named = {one for _, value in parts for one in (value if isinstance(value, list) else [value])}
    plain = {one for one in pages if one.endswith(".md") and "/" not in one}
    return [
        *({name: value} for name, value in parts),
        {title: [*last, *sorted(plain - named - {*last})]},
    ]


def settings(source: Path, out: Path) -> dict[str, object]:
    """mkdocs.yml."""
    options = {
        "show_source": False,
        "show_root_heading": True,
        "separate_signature": True,
        "show_signature_annotations": True,
        "docstring_style": "google",
    }
    handler = {"paths": [str(ROOT / "src")], "options": options}
    return {
        "site_name": "refluid",
        "site_description": "PaddlePaddle Fluid training programs on PyTorch's kernels",
        "docs_dir": str(source),
        "site_dir": str(out),
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            "font": False,
            "palette": {"primary": "teal"},
            "features": ["navigation.sections", "toc.follow", "content.code.copy"],
        },
        "plugins": ["search", {"mkdocstrings": {"handlers": {"python": handler}}}],
        "markdown_extensions": ["tables", "toc", "pymdownx.highlight", "pymdownx.superfences"],
        "validation": {"nav": {"omitted_files": "ignore"}, "links": {"anchors": "warn"}},
        "nav": navigation(page_places(ROOT).values()),
    }


def draw_benchmarks(images: Path) -> None:
    """The plots of all recorded measurements."""
    from benchmarks.suite.plot import draw
    from benchmarks.suite.results import load
    from benchmarks.suite.workloads import WORKLOADS

    for folder in sorted((ROOT / "benchmarks" / "results").iterdir()):
        names = [name for name in WORKLOADS if (folder / f"{name}.json").exists()]
        draw({name: load(folder, name) for name in names}, images / f"benchmarks-{folder.name}.svg")


def add_pictures(drawn: Path, examples: Path) -> None:
    """What the examples drew here, where they were run, under their table."""
    pictures = sorted(drawn.rglob("*.png"))
    lines = ["", "## Drawn here", ""] if pictures else []
    for picture in pictures:
        shutil.copyfile(picture, examples / picture.name)
        lines += [f"![{picture.stem}]({picture.name})", ""]
    with (examples / "index.md").open("a", encoding="utf-8") as index:
        index.write("\n".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    options = parser.parse_args()
    source = ROOT / "build" / "site-pages"
    shutil.rmtree(source, ignore_errors=True)
    missing = write_pages(ROOT, source)
    if missing:
        print("links that lead nowhere:", *missing, sep="\n  ", file=sys.stderr)
        return 1
    draw_benchmarks(source / "images")
    add_pictures(ROOT / "demo-output", source / "examples")
    count = write_api(source / "api")
    file = ROOT / "build" / "mkdocs.yml"
    file.write_text(yaml.safe_dump(settings(source, options.out.resolve())), encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", str(file)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, check=False, env=quiet).returncode
    if not done:
        pages = len(list(options.out.rglob("*.html")))
        print(f"{options.out}: {pages} pages, {count} public names")
    return done


if __name__ == "__main__":
    sys.exit(main())

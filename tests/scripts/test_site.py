"""The site: links of its pages, and what checks the built one."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.site import api, check, links, pages
from scripts.site.build import navigation

PAGE = "<html><body><article><h1>Title</h1><p>Some text</p>{more}</article></body></html>"
needs_browser = pytest.mark.skipif(bool(check.browser_lacks()), reason=check.browser_lacks())
needs_mkdocs = pytest.mark.skipif(
    any(importlib.util.find_spec(one) is None for one in ("mkdocs", "mkdocstrings")),
    reason="mkdocs or mkdocstrings isn't installed: pip install 'refluid[site]'",
)


def built(folder: Path, more: str) -> Path:
    (folder / "other.html").write_text(PAGE.format(more='<h2 id="there">There</h2>'))
    (folder / "index.html").write_text(PAGE.format(more=more))
    return folder


def test_no_link_of_the_repository_is_broken(tmp_path: Path) -> None:
    assert pages.write_pages(pages.ROOT, tmp_path) == []
    assert (
        "(convert.md)"
        in (tmp_path / "index.md").read_text()
        + (tmp_path / "moving.md").read_text()
        + (tmp_path / "architecture.md").read_text()
    )
    assert (tmp_path / "examples" / "translate.md").exists()


def test_links_are_those_of_the_site() -> None:
    places = {"README.md": "index.md", "docs/a.md": "a.md", "examples/x.py": "examples/x.md"}
    text = "[a](docs/a.md#part) [x](examples/x.py) [m](Makefile) [n](nothing.md) [w](https://w.org)"
    found, lost = pages.relinked(pages.ROOT, "README.md", text, places)
    assert found == "[a](a.md#part) [x](examples/x.md) m n [w](https://w.org)"
    assert lost == ["nothing.md"]


def test_the_navigation_names_pages_that_are_there() -> None:
    made = {*pages.page_places(pages.ROOT).values(), "api/index.md"}
    named = [
        one
        for entry in navigation([*made, "a_new_page.md"])
        for value in entry.values()
        for one in (value if isinstance(value, list) else [value])
    ]
    assert [one for one in named if one not in made] == ["a_new_page.md"]
    plain = {one for one in made if one.endswith(".md") and "/" not in one}
    assert plain - set(named) == set(), "pages that nothing leads to"


def test_public_names_have_pages(tmp_path: Path) -> None:
    assert api.write_api(tmp_path) > 500
    text = (tmp_path / "layers.md").read_text()
    assert "::: refluid.fluid.functions.math.linear.fc\n    options:\n      heading: fc" in text
    assert "Another name of `Adam`." in (tmp_path / "optimizer.md").read_text()


def test_broken_links_are_found(tmp_path: Path) -> None:
    more = '<a href="other.html#there">a</a> <a href="other.html#not">b</a> <img src="no.png">'
    site = built(tmp_path, more)
    assert links.broken_links(site) == ["index.html: other.html#not", "index.html: no.png"]


@needs_browser
@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ("<script>console.error('oh')</script>", "index.html: oh"),
        ("<script>nothing.at_all()</script>", "index.html: nothing is not defined"),
        ('<img src="no.png">', "404 for"),
        ('<img src="https://refluid.invalid/x.png">', "asks for https://refluid.invalid/x.png"),
        ("<style>h1 { display: none }</style>", "index.html: shows no heading"),
    ],
)
def test_faults_of_a_shown_page_are_found(more: str, fault: str, tmp_path: Path) -> None:
    found = check.looked_at(built(tmp_path, more))
    assert any(fault in one for one in found), found


@needs_browser
def test_a_good_page_has_none(tmp_path: Path) -> None:
    (tmp_path / "favicon.ico").write_bytes(b"")
    assert check.looked_at(built(tmp_path, '<a href="other.html#there">a</a>')) == []


@needs_mkdocs
@pytest.mark.slow
def test_the_site_is_built_and_has_no_faults(tmp_path: Path) -> None:
    for module, site in (("build", ["--out", str(tmp_path)]), ("check", [str(tmp_path)])):
        command = [sys.executable, "-m", f"scripts.site.{module}", *site]
        done = subprocess.run(command, cwd=pages.ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

"""Checks the built site: `python -m scripts.site.check`.

Links and anchors are read from the pages; each page is then opened in headless Chromium: errors of
its console, what it asks for in vain or from elsewhere, and whether it shows its heading and text.
Exit status 1 where anything is wrong. Without a browser that part is left out, with the reason.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from scripts.site.links import broken_links
from scripts.site.pages import ROOT

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Of a page: its heading, how much text it shows, and whether the heading can be seen.
_SHOWN = """() => {
  const head = document.querySelector("article h1"), box = head && head.getBoundingClientRect();
  const text = document.querySelector("article");
  return [head ? head.innerText : "", text ? text.innerText.length : 0, box ? box.width : 0];
}"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The address of the site, served to this machine alone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def browser_lacks() -> str:
    """Why there is no browser to look with; empty where there is one."""
    try:
        import playwright  # noqa: F401
    except ModuleNotFoundError:
        return "playwright isn't installed: pip install 'refluid[site]'"
    if not any(map(shutil.which, BROWSERS)):
        return f"none of {', '.join(BROWSERS)} is installed"
    return ""


def looked_at(site: Path) -> list[str]:
    """What is wrong of the pages as a browser shows them."""
    from playwright.sync_api import sync_playwright

    path = next(found for found in map(shutil.which, BROWSERS) if found)
    pages = sorted(one for one in site.rglob("*.html") if one.name != "404.html")
    found: list[str] = []
    with served(site) as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        tab = browser.new_page()
        now = [""]
        tab.on("console", lambda one: _note(found, now, one.type == "error", one.text))
        tab.on("pageerror", lambda one: _note(found, now, True, str(one)))
        tab.on("request", lambda one: _note(found, now, _is_elsewhere(one.url, address),
                                            f"asks for {one.url}"))  # fmt: skip
        tab.on("response", lambda one: _note(found, now, one.status >= 400,
                                             f"{one.status} for {one.url}"))  # fmt: skip
        for file in pages:
            now[0] = file.relative_to(site).as_posix()
            tab.goto(f"{address}/{now[0]}", wait_until="load")
            heading, length, width = tab.evaluate(_SHOWN)
            _note(found, now, not heading or not width, "shows no heading")
            _note(found, now, length <= len(heading), "shows no text")
        browser.close()
    return list(dict.fromkeys(found))


def _note(found: list[str], page: list[str], wrong: bool, text: str) -> None:
    if wrong:
        found.append(f"{page[0]}: {text}")


def _is_elsewhere(url: str, address: str) -> bool:
    return not url.startswith((address, "data:", "blob:"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path, nargs="?", default=ROOT / "build" / "site")
    site = parser.parse_args().site.resolve()
    if not (site / "index.html").exists():
        print(f"{site} holds no site: python -m scripts.site.build", file=sys.stderr)
        return 1
    wrong = [f"broken link, {one}" for one in broken_links(site)]
    lacking = browser_lacks()
    if lacking:
        print(f"pages were not opened in a browser: {lacking}")
    else:
        wrong += looked_at(site)
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    count = len(list(site.rglob("*.html")))
    print(f"{count} pages: {len(wrong) or 'no'} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

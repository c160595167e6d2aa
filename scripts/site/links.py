"""Links and anchors of built pages, read without a browser."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := known.get(key))}
        for key in ("href", "src"):
            value = known.get(key)
            if value and not (tag == "link" and known.get("rel") in ("canonical", "edit")):
                self.links.append(value)


def broken_links(site: Path) -> list[str]:
    """`page: link` for each link of the site to a file or an anchor that it lacks."""
    pages: dict[Path, _Page] = {}
    for file in site.rglob("*.html"):
        pages[file] = page = _Page()
        page.feed(file.read_text(encoding="utf-8"))
    found = []
    for file, page in pages.items():
        if file.name == "404.html":  # which is shown at any address
            continue
        for link in page.links:
            if not _leads_somewhere(site, file, link, pages):
                found.append(f"{file.relative_to(site)}: {link}")
    return found


def _leads_somewhere(site: Path, file: Path, link: str, pages: dict[Path, _Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    path = unquote(parts.path)
    target = file if not path else (site / path[1:] if path[0] == "/" else file.parent / path)
    target = target.resolve()
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return False
    page = pages.get(target)
    anchor = unquote(parts.fragment)
    return not anchor or page is None or anchor in page.anchors or anchor == "__toc"

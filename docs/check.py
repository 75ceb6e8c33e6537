"""What the built site promises: links lead somewhere, and no page asks for anything outside its folder.

python -m docs.check docs/build
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = ("src", "srcset", "data", "poster")
LOADED_LINKS = ("stylesheet", "icon", "preload", "modulepreload", "prefetch", "preconnect", "dns-prefetch", "manifest")
IN_STYLE = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")
# What a script would load by itself: modules, and addresses that are passed to a function which fetches them.
IN_SCRIPT = re.compile(r"""(?:\bimport\b|\bfrom|fetch\(|importScripts\(|\.src\s*=)\s*["'`](https?:[^"'`]+)""")


class Page(HTMLParser):
    """The anchors of a page, where its links lead, and what it loads."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads, self.inside = set(), [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = {key: value or "" for key, value in attrs}
        self.inside = tag
        self.anchors |= {attrs[key] for key in ("id", "name") if key in attrs}
        if tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])
        if tag == "link" and set(attrs.get("rel", "").split()) & set(LOADED_LINKS):
            self.loads.append(attrs.get("href", ""))
        for key in LOADING:
            if key in attrs and tag != "a":
                self.loads += [part.split()[0] for part in attrs[key].split(", ")] if key == "srcset" else [attrs[key]]
        self.loads += from_style(attrs.get("style", ""))

    def handle_data(self, data):
        if self.inside == "style":
            self.loads += from_style(data)
        elif self.inside == "script":
            self.loads += IN_SCRIPT.findall(data)

    def handle_endtag(self, tag):
        self.inside = ""


def from_style(text):
    return [one or other for one, other in IN_STYLE.findall(text)]


def problems(folder):
    """Sentences on what is wrong, of all pages, styles and scripts."""
    paths = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]  # which holds templates
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in paths}
    if not pages:
        yield f"no page in {folder}"
    for path, page in pages.items():
        name = path.relative_to(folder.resolve())
        for link in dict.fromkeys(page.links):
            if why := broken(link, path, pages):
                yield f"{name}: the link {link} {why}"
        for load in dict.fromkeys(page.loads):
            if is_outside(load):
                yield f"{name} loads {load}"
            elif not load.startswith("data:") and not target_of(load, path).exists():
                yield f"{name} loads {load}, which is not there"
    for path in sorted([*folder.rglob("*.css"), *folder.rglob("*.js")]):
        text = path.read_text(encoding="utf-8")
        for load in from_style(text) if path.suffix == ".css" else IN_SCRIPT.findall(text):
            if is_outside(load):
                yield f"{path.relative_to(folder)} loads {load}"


def is_outside(address):
    return urlsplit(address).scheme not in ("", "data") or address.startswith("//")


def target_of(link, path):
    return (path.parent / unquote(urlsplit(link).path)).resolve() if urlsplit(link).path else path


def broken(link, path, pages):
    """Why a link leads nowhere; empty if it doesn't. Outside, only its form is looked at."""
    parts = urlsplit(link)
    if parts.scheme == "mailto":
        return ""
    if parts.scheme or link.startswith("//"):
        whole = parts.scheme in ("http", "https") and re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.hostname or "")
        return "" if whole and " " not in link else "has not the form of an address"
    target = target_of(link, path)
    if not target.exists():
        return "leads to no file"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return "leads to no place on its page"
    return ""


def main(folder):
    found = list(problems(Path(folder)))
    print("\n".join(found) if found else f"all links of {folder} lead somewhere, and nothing is loaded from outside")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

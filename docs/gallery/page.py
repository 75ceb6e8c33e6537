"""The gallery as one page: runs every script, writes its pictures, and sets words and numbers beside them.

From the repository:

python -m docs.gallery.page            all of it, into docs/gallery/build
python -m docs.gallery.page boston     only these scripts, while working on them
"""

import base64
import importlib
import re
import shutil
import sys
import time
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

import losslens as ll

HERE = Path(__file__).resolve().parent
BUILD = HERE / "build"
ORDER = ("toy", "scheme", "simulation1", "simulation2", "boston", "bikeshare")
PAPER = "https://doi.org/10.1007/978-3-030-10925-7_40"
WIDE = 6.4  # inches: figures up to this width share a line of the page


@dataclass(frozen=True)
class Picture:
    name: str
    alt: str
    caption: str
    png: bytes
    wide: bool


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    words: str
    pictures: list[Picture]
    numbers: list[tuple[str, str, str]]
    seconds: float


def main(chosen):
    names = chosen or ORDER
    check_names(names)
    shutil.rmtree(BUILD, ignore_errors=True)  # no page of an earlier run survives a script that fails
    BUILD.mkdir()
    sections = []
    for name in names:
        print(f"{name:<12}", end="", flush=True)
        sections.append(run(name))
        print(f"{sections[-1].seconds:6.1f} s", flush=True)
    page = BUILD / "index.html"
    page.write_text(page_html(sections), encoding="utf-8")
    print(f"{'together':<12}{sum(section.seconds for section in sections):6.1f} s\n{page}")


def check_names(names):
    """Every script has its place in the order, and every place a script."""
    found = {path.stem for path in HERE.glob("*.py")} - {"__init__", "page"}
    if forgotten := sorted(found - set(ORDER)):
        raise SystemExit(f"not in ORDER of page.py: {', '.join(forgotten)}")
    if missing := [name for name in names if name not in found]:
        raise SystemExit(f"no such script in docs/gallery: {', '.join(missing)}")


def run(name):
    start = time.perf_counter()
    try:
        script = importlib.import_module(f"docs.gallery.{name}")
        figures = script.pictures()
        numbers = checked(script.numbers())
        pictures = [save(script, name, key, figure) for key, figure in figures.items()]
    except BaseException as error:
        error.add_note(f"the gallery was not built: docs/gallery/{name}.py failed")
        raise
    plt.close("all")
    return Section(name, script.TITLE, script.WORDS, pictures, numbers, time.perf_counter() - start)


def checked(numbers):
    for line in numbers:
        if len(line) != 3 or not all(isinstance(part, str) for part in line):
            raise TypeError(f"numbers() gives three strings a line; got {line!r}")
    return numbers


def save(script, name, key, figure):
    stem = BUILD / f"{name}-{slug(key)}"
    figure.savefig(stem.with_suffix(".png"), dpi=170)
    with mpl.rc_context({"svg.hashsalt": name}):  # the same file for the same picture
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
    caption = getattr(script, "CAPTIONS", {}).get(key, "")
    alt = f"{script.TITLE}: {caption or describe(key, figure)}"
    return Picture(key, alt, caption, stem.with_suffix(".png").read_bytes(), figure.get_figwidth() > WIDE)


def describe(key, figure):
    """A picture in words, from its own titles and labels."""
    parts = [key.replace("_", " ")]
    for ax in figure.axes:
        said = ax.get_title() or ax.get_title(loc="left")
        across, up = ax.get_xlabel(), ax.get_ylabel()
        parts.append(said if not (across and up) else f"{said + ', ' if said else ''}{up} over {across}")
    return "; ".join(dict.fromkeys(part.replace("\n", " ") for part in parts if part))


def slug(text):
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


# -- HTML ---------------------------------------------------------------------------------------------------------


def page_html(sections):
    contents = "\n".join(f'<li><a href="#{section.name}">{escape(section.title)}</a></li>' for section in sections)
    total = sum(section.seconds for section in sections)
    template = Template((HERE / "page.html").read_text(encoding="utf-8"))
    return template.substitute(
        contents=contents,
        sections="\n".join(map(section_html, sections)),
        paper=PAPER,
        version=ll.__version__,
        seconds=f"{total:.0f}",
    )


def section_html(section):
    pictures = "\n".join(map(picture_html, section.pictures))
    return f"""<section id="{section.name}">
<h2>{escape(section.title)}</h2>
{paragraphs(section.words)}
<div class="pictures">
{pictures}
</div>
{table_html(section.numbers)}
<p class="origin">docs/gallery/{section.name}.py, {section.seconds:.1f} s</p>
</section>"""


def picture_html(picture):
    data = base64.b64encode(picture.png).decode("ascii")
    caption = f"<figcaption>{marked(picture.caption)}</figcaption>" if picture.caption else ""
    kind = ' class="wide"' if picture.wide else ""
    alt = escape(picture.alt, quote=True)
    return f'<figure{kind}><img src="data:image/png;base64,{data}" alt="{alt}">{caption}</figure>'


def table_html(numbers):
    lines = "\n".join(
        f'<tr><th scope="row">{marked(what)}</th><td>{marked(ours)}</td><td>{marked(theirs)}</td></tr>'
        for what, ours, theirs in numbers
    )
    return f"""<div class="table"><table>
<thead><tr><th scope="col">number</th><th scope="col">losslens</th><th scope="col">paper or theory</th></tr></thead>
<tbody>
{lines}
</tbody></table></div>"""


def paragraphs(words):
    parts = re.split(r"\n\s*\n", words.strip())
    return "\n".join(f"<p>{marked(' '.join(part.split()))}</p>" for part in parts)


def marked(text):
    """Text as HTML; `names` between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


if __name__ == "__main__":
    main(sys.argv[1:])

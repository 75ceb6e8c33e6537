"""The gallery as one page: runs every script, writes its pictures, and sets words and numbers beside them.

From the repository:

python -m docs.gallery.page            all of it, into docs/gallery/build
python -m docs.gallery.page boston     only these scripts, while working on them
"""

import base64
import importlib
import inspect
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
DPI = 170
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
    question: str
    words: str
    differs: str
    pictures: list[Picture]
    tables: dict[str, list[tuple[str, ...]]]  # by title; the first line has the headings
    code: str
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
        tables = checked(script.numbers())
        facts = script.facts()
        check_claims(script.claims())
        captions = {key: text.format(**facts) for key, text in script.CAPTIONS.items()}
        pictures = [save(script.TITLE, name, key, captions.get(key, ""), figure) for key, figure in figures.items()]
    except BaseException as error:
        error.add_note(f"the gallery was not built: docs/gallery/{name}.py failed")
        raise
    plt.close("all")
    words, differs = script.WORDS.format(**facts), script.DIFFERS.format(**facts)
    seconds = time.perf_counter() - start
    return Section(name, script.TITLE, script.QUESTION, words, differs, pictures, tables, source(script), seconds)


def checked(tables):
    for title, lines in tables.items():
        if len({len(line) for line in lines}) != 1 or not all(isinstance(part, str) for line in lines for part in line):
            raise TypeError(f"numbers() gives lines of as many strings as there are headings; look at {title!r}")
    return tables


def check_claims(claims):
    """Words can't be computed, but they can be checked: a sentence that the numbers belie stops the build."""
    if belied := [sentence for sentence, holds in claims.items() if not holds]:
        raise ValueError(f"the numbers no longer say: {'; '.join(belied)}")


def source(script):
    """The functions that ask losslens, as they ran."""
    return "\n\n".join(inspect.getsource(getattr(script, name)).strip() for name in script.SHOWN)


def save(title, name, key, caption, figure):
    stem = BUILD / f"{name}-{slug(key)}"
    figure.savefig(stem.with_suffix(".png"), dpi=DPI)
    with mpl.rc_context({"svg.hashsalt": name}):  # the same file for the same picture
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
    alt = f"{title}: {caption or describe(key, figure)}".replace("`", "")
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
    tables = "\n".join(table_html(title, lines) for title, lines in section.tables.items())
    return f"""<section id="{section.name}">
<h2>{escape(section.title)}</h2>
<p class="question">{marked(section.question)}</p>
<div class="pictures">
{pictures}
</div>
<h3>What to see</h3>
{paragraphs(section.words)}
<h3>Numbers</h3>
{tables}
{paragraphs(section.differs)}
<details><summary>The lines that ask losslens</summary>
<pre><code>{escape(section.code, quote=False)}</code></pre></details>
<p class="origin">docs/gallery/{section.name}.py, {section.seconds:.1f} s</p>
</section>"""


def picture_html(picture):
    data = base64.b64encode(picture.png).decode("ascii")
    caption = f"<figcaption>{marked(picture.caption)}</figcaption>" if picture.caption else ""
    kind = ' class="wide"' if picture.wide else ""
    alt = escape(picture.alt, quote=True)
    return f'<figure{kind}><img src="data:image/png;base64,{data}" alt="{alt}">{caption}</figure>'


def table_html(title, lines):
    heads, *rows = lines
    head = "".join(f'<th scope="col">{marked(text)}</th>' for text in heads)
    body = "\n".join(
        f'<tr><th scope="row">{marked(what)}</th>{"".join(f"<td>{marked(cell)}</td>" for cell in cells)}</tr>'
        for what, *cells in rows
    )
    return f"""<div class="table"><table>
<caption>{marked(title)}</caption>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody></table></div>"""


def paragraphs(words):
    parts = re.split(r"\n\s*\n", words.strip())
    return "\n".join(f"<p>{marked(' '.join(part.split()))}</p>" for part in parts)


def marked(text):
    """Text as HTML; `names` between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


if __name__ == "__main__":
    main(sys.argv[1:])

"""The paper as pages of the site: runs every script, writes its pictures, and sets words and numbers beside them.

From the repository:

python -m docs.gallery.page            all of it, into docs/paper, as `make docs` does
python -m docs.gallery.page boston     only these scripts, while working on them
python -m docs.gallery.page --full     with as many test sets as the paper
"""

import importlib
import inspect
import re
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / "paper"
ORDER = ("toy", "scheme", "simulation1", "simulation2", "boston", "bikeshare")
# Constants of scripts that would take minutes with as many test sets as the paper has.
FEWER = {"simulation2": {"TEST_SETS": 100}}
FULL = "python -m docs.gallery.page --full"
DPI = 170


@dataclass(frozen=True)
class Picture:
    file: str
    alt: str
    caption: str


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
    fewer: str  # what is smaller than in the paper
    seconds: float


def main(arguments):
    full = "--full" in arguments
    names = [name for name in arguments if name != "--full"] or ORDER
    check_names(names)
    shutil.rmtree(BUILD, ignore_errors=True)  # no page of an earlier run survives a script that fails
    BUILD.mkdir()
    for name in names:
        print(f"{name:<12}", end="", flush=True)
        section = run(name, {} if full else FEWER.get(name, {}))
        (BUILD / f"{name}.md").write_text(markdown(section), encoding="utf-8")
        print(f"{section.seconds:6.1f} s", flush=True)


def check_names(names):
    """Every script has its place in the order, and every place a script."""
    found = {path.stem for path in HERE.glob("*.py")} - {"__init__", "page"}
    if forgotten := sorted(found - set(ORDER)):
        raise SystemExit(f"not in ORDER of page.py: {', '.join(forgotten)}")
    if missing := [name for name in names if name not in found]:
        raise SystemExit(f"no such script in docs/gallery: {', '.join(missing)}")


def run(name, constants):
    start = time.perf_counter()
    try:
        script = importlib.import_module(f"docs.gallery.{name}")
        fewer = [f"{getattr(script, key):,} {words(key)}" for key in constants]
        for key, value in constants.items():
            setattr(script, key, value)
        figures = script.pictures()
        tables = checked(script.numbers())
        facts = script.facts()
        check_claims(script.claims())
        captions = {key: text.format(**facts) for key, text in script.CAPTIONS.items()}
        pictures = [save(script.TITLE, name, key, captions.get(key, ""), figure) for key, figure in figures.items()]
    except BaseException as error:
        error.add_note(f"the pages of the paper were not built: docs/gallery/{name}.py failed")
        raise
    plt.close("all")
    texts = (script.QUESTION, script.WORDS.format(**facts), script.DIFFERS.format(**facts))
    seconds = time.perf_counter() - start
    return Section(name, script.TITLE, *texts, pictures, tables, source(script), ", ".join(fewer), seconds)


def words(constant):
    return constant.lower().replace("_", " ")


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
    return "\n\n\n".join(inspect.getsource(getattr(script, name)).strip() for name in script.SHOWN)


def save(title, name, key, caption, figure):
    file = f"{name}-{slug(key)}.png"
    figure.savefig(BUILD / file, dpi=DPI)
    return Picture(file, f"{title}: {caption or describe(key, figure)}".replace("`", ""), caption)


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


# -- Markdown -----------------------------------------------------------------------------------------------------


def markdown(section):
    """A page of the site."""
    fewer = f"The paper has {section.fewer}; `{FULL}` runs as many." if section.fewer else ""
    parts = [
        f"# {marked(section.title)}",
        paragraphs(section.question),
        *map(figure, section.pictures),
        "## What to see",
        paragraphs(section.words),
        "## Numbers",
        *(table(title, lines) for title, lines in section.tables.items()),
        paragraphs(section.differs),
        fewer,
        f":::{{dropdown}} The lines that ask losslens\n```python\n{section.code}\n```\n:::",
        f"From `docs/gallery/{section.name}.py`.",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def figure(picture):
    return f"```{{figure}} {picture.file}\n:alt: {picture.alt}\n\n{marked(picture.caption)}\n```"


def table(title, lines):
    heads, *rows = ["| " + " | ".join(map(marked, line)) + " |" for line in lines]
    rule = "|---|" + "--:|" * (len(lines[0]) - 1)
    return "\n".join([f":::{{table}} {marked(title)}", heads, rule, *rows, ":::"])


def paragraphs(text):
    parts = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(marked(" ".join(part.split())) for part in parts)


def marked(text):
    """Text as Markdown; `names` between backticks stay code, and nothing else has a meaning."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_\[\]<>|#])", r"\\\1", part) for part in parts)


if __name__ == "__main__":
    main(sys.argv[1:])

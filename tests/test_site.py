"""What is checked of the built site: links that lead nowhere and loads from outside are found, others pass."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def check():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield importlib.import_module("docs.check")


@pytest.fixture
def site(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "deep" / "b.html").write_text('<h2 id="here">B</h2><a href="../index.html">back</a>', "utf-8")
    return tmp_path


def found(check, site, body):
    (site / "index.html").write_text(body, "utf-8")
    return list(check.problems(site))


@pytest.mark.parametrize(
    "body",
    [
        '<a href="deep/b.html#here">b</a>',
        '<a href="https://doi.org/10.1007/x">paper</a>',
        '<img src="a.png"><img src="data:image/png;base64,AA==">',
        "<code>https://example.org/a.js</code>",
        '<style>@font-face {src: url("a.png")}</style>',
        '<link rel="canonical" href="https://example.org/">',
    ],
)
def test_what_is_fine_passes(check, site, body):
    assert found(check, site, body) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('<a href="nowhere.html">x</a>', "leads to no file"),
        ('<a href="deep/b.html#there">x</a>', "leads to no place on its page"),
        ('<a href="#there">x</a>', "leads to no place on its page"),
        ('<a href="https://nowhere">x</a>', "has not the form of an address"),
        ('<img src="b.png">', "which is not there"),
        ('<img src="https://example.org/b.png">', "loads https://example.org/b.png"),
        ('<img srcset="a.png 1x, //example.org/b.png 2x">', "loads //example.org/b.png"),
        ('<link rel="stylesheet" href="https://example.org/a.css">', "loads https://example.org/a.css"),
        ('<style>@import "https://example.org/a.css"</style>', "loads https://example.org/a.css"),
        ('<p style="background: url(https://example.org/a.png)">x</p>', "loads https://example.org/a.png"),
        ('<script>fetch("https://example.org/a")</script>', "loads https://example.org/a"),
        ('<script type="module">import a from "https://example.org/a.js"</script>', "loads https://example.org/a.js"),
    ],
)
def test_what_is_wrong_is_told(check, site, body, words):
    (said,) = found(check, site, body)
    assert said.startswith("index.html")
    assert said.endswith(words)


@pytest.mark.parametrize(
    ("name", "text"), [("a.css", "a {src: url(https://example.org/f)}"), ("a.js", 'fetch("https://example.org/f")')]
)
def test_styles_and_scripts_are_read(check, site, name, text):
    (site / name).write_text(text, "utf-8")
    assert found(check, site, "") == [f"{name} loads https://example.org/f"]


def test_a_folder_without_pages_is_no_site(check, tmp_path):
    assert list(check.problems(tmp_path)) == [f"no page in {tmp_path}"]
    assert check.main(tmp_path) == 1


def test_code_behind_the_pages_is_run_by_one():
    """As a hidden cell: `exec` raises what the checks of a page raise, and stops the build."""
    docs = ROOT / "docs"
    pages = [path.read_text("utf-8") for path in (*docs.glob("*.md"), *docs.glob("tutorials/*.md"))]
    behind = [path.name for path in (docs / "behind").glob("*.py")]
    for name in behind:
        run = [page for page in pages if f'behind/{name}").read()' in page]
        assert len(run) == 1 or name == "shell.py"  # which its first cell reads, before it changes the folder
    assert len(behind) >= 10

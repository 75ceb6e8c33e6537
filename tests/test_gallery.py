"""The gallery's scripts and pages: every section is built, the expensive ones with few rows, test sets and trees."""

import importlib
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.ensemble import RandomForestRegressor

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "docs" / "gallery"
SCRIPTS = sorted(path.stem for path in GALLERY.glob("*.py") if path.stem != "page")
# Constants of the scripts, so small that a section takes seconds; its sentences need not be true then.
SMALL = {
    "toy": {},
    "scheme": {},
    "simulation1": {"TEST_SETS": 11, "TRAIN": 300, "TREES": 5, "CURVE_ROWS": 60},
    "simulation2": {"TEST_SETS": 10, "ROWS": 20, "TRAIN": 300, "TRAIN_SVM": 40, "TREES": 5, "PROCESSES": 1},
    "boston": {"SPLITS": 3, "TREES": 5},
    "bikeshare": {"TREES": 12},
}


@pytest.fixture(autouse=True, scope="module")
def _from_the_root():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield
    plt.close("all")


@pytest.fixture(scope="module")
def page(_from_the_root):
    return importlib.import_module("docs.gallery.page")


def script(name):
    return importlib.import_module(f"docs.gallery.{name}")


def numbers(cell):
    return [float(part) for part in cell.replace("−", "-").split(", ")]


# -- scripts ------------------------------------------------------------------------------------------------------


def test_every_script_has_its_place_on_the_page_and_in_the_readme(page):
    assert sorted(page.ORDER) == SCRIPTS
    readme = (GALLERY / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}.py`" in readme for name in SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_keeps_the_contract(name):
    one = script(name)
    assert all(isinstance(getattr(one, text), str) for text in ("TITLE", "QUESTION", "WORDS", "DIFFERS"))
    assert all(callable(getattr(one, ask)) for ask in ("pictures", "numbers", "facts", "claims", *one.SHOWN))
    assert one.CAPTIONS
    assert all(one.CAPTIONS.values())


@pytest.mark.parametrize("name", ["toy", "scheme"])
def test_captions_belong_to_pictures_and_claims_hold(name):
    one = script(name)
    assert set(one.CAPTIONS) == set(one.pictures())
    assert all(one.claims().values())


def test_toy_numbers_are_means_of_the_nine_cells():
    """Down: (0 + .6 + .3)/3, (.65 + 0 + .25)/3, (.7 + .5 + 0)/3. Along: 1.35/3, 1.1/3, .55/3. All: 3/9, or 3/6."""
    (lines,) = script("toy").numbers().values()
    assert lines[0] == ("number", "losslens", "paper")
    found = {what: numbers(ours) for what, ours, _ in lines[1:]}
    assert found["PI curve: means of the columns"] == pytest.approx([0.3, 0.3, 0.4])
    assert found["local importances: means of the rows"] == pytest.approx([0.45, 0.3667, 0.1833])
    assert found["PFI over all 9 pairs (V)"] == pytest.approx([0.3333])
    assert found["PFI over the 6 pairs of different rows (U)"] == pytest.approx([0.5])
    assert all(numbers(ours) == numbers(theirs) for _, ours, theirs in lines[1:-2])


def test_scheme_numbers_follow_from_the_factors():
    """a² - b² = (a - b)(a + b): for f = s x + c a cell is s (x_k - x_i) (s (x_k + x_i) + 2 c - 2 y_i)."""
    scheme = script("scheme")
    x, s, c = scheme.X.T
    away, both = x - x[:, None], x + x[:, None]
    cells = s[:, None] * away * (s[:, None] * both + 2 * (c - scheme.Y)[:, None])
    (lines,) = scheme.numbers().values()
    assert lines[0] == ("number", "losslens", "by the formulas")
    found = [numbers(ours) for _, ours, _ in lines[1:]]
    pd = s.mean() * x + c.mean()
    for ours, known in zip(found, [pd, cells.mean(axis=0), cells.mean(axis=1), [cells.mean()]], strict=True):
        assert ours == pytest.approx(known, abs=0.006)
    assert all(ours == theirs for _, ours, theirs in lines[1:])


def test_simulation1_within_groups():
    """For the true function X1 counts a = 11 or 1 times; with residual r a cell is (r - a d)² - r², d = x_k - x_i."""
    sim = script("simulation1")
    rng = np.random.default_rng(0)
    tests = [sim.draw(40, rng) for _ in range(12)]  # more than are asked together
    *_, found = sim.over_tests(sim.true_function, tests)
    X, y = tests[-1]
    slope, left = np.where(X[:, 2] == 0, 11, 1), y - sim.true_function(X)
    cells = (left[:, None] - slope[:, None] * (X[:, 0] - X[:, [0]])) ** 2 - left[:, None] ** 2
    for group, value in sim.GROUPS.items():
        mine = np.full(40, True) if value is None else X[:, 2] == value
        assert found["X1", group] == pytest.approx(cells[np.ix_(mine, mine)].mean(), abs=0.051)  # one decimal
    assert set(found) == set(sim.PAPER) == set(sim.TRUTH)


def test_a_forest_that_always_draws_x3_again_ends_below_its_first_split_on_x3():
    sim = script("simulation1")
    X, y = sim.draw(300, np.random.default_rng(1))
    forest = RandomForestRegressor(3, max_features=1, random_state=0).fit(X, y)
    said = [[value_below_x3(grown.tree_, row) for row in X] for grown in forest.estimators_]

    class Zeros:
        def random(self, n):
            return np.zeros(n)

    np.testing.assert_allclose(sim.end_early(forest, Zeros()).predict(X), np.mean(said, axis=0))


def value_below_x3(tree, row):
    """Of a row on its way down: the value of the node after the first question for X3, or of its leaf."""
    node = 0
    while tree.children_left[node] >= 0:
        feature = tree.feature[node]
        lower = np.float32(row[feature]) <= tree.threshold[node]
        node = (tree.children_left if lower else tree.children_right)[node]
        if feature == 2:
            break
    return tree.value[node, 0, 0]


def test_simulation2_measures_what_brute_force_gives():
    """Errors of all 8 sets of kept features over all pairs of rows; shares are means over the 6 orders of features."""
    sim = script("simulation2")
    rng = np.random.default_rng(3)
    X, y = sim.draw(12, rng)
    fitted = sim.fit(rng, rows=60, rows_svm=30)
    for model in fitted.values():
        errors = {kept: pair_error(model.predict, X, y, kept) for kept in product((False, True), repeat=3)}
        none, whole = errors[False, False, False], errors[True, True, True]
        lacking = np.array([errors[tuple(k != j for k in range(3))] for j in range(3)])
        (found,) = sim.measure(model, [(X, y)])
        known = [*(lacking - whole), *(lacking / whole), *shares(errors), none, whole]
        np.testing.assert_allclose(found, known, rtol=1e-9, atol=1e-9)


def pair_error(predict, X, y, kept):
    rows = np.repeat(X, len(X), axis=0)
    donors = np.tile(X, (len(X), 1))
    return np.mean((predict(np.where(kept, rows, donors)) - np.repeat(y, len(X))) ** 2)


def shares(errors):
    """Shapley's formula for three: weights 1/3, 1/6, 1/6, 1/3 for coming after none, one or both of the others."""
    found = []
    for j in range(3):
        steps = 0.0
        for others in product((False, True), repeat=2):
            without = (*others[:j], False, *others[j:])
            with_j = (*others[:j], True, *others[j:])
            steps += (errors[without] - errors[with_j]) / (6 if sum(others) == 1 else 3)
        found.append(steps)
    return found


def test_boston_places_a_number_among_ours():
    boston = script("boston")
    said = [boston.place(value, [2, 5, 3]) for value in (1, 2, 4, 5, 6)]
    within = "within their range"
    assert said == ["below all of ours", within, within, within, "above all of ours"]


# -- pages --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(page, tmp_path_factory):
    """All sections as pages, with small numbers."""
    build = tmp_path_factory.mktemp("gallery") / "build"
    checked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "BUILD", build)
        patch.setattr(page, "DPI", 40)
        patch.setattr(page, "check_claims", checked.append)
        for name, constants in SMALL.items():
            for constant, value in constants.items():
                patch.setattr(script(name), constant, value)
        patch.setattr(page, "FEWER", {name: {key: SMALL[name][key] for key in page.FEWER[name]} for name in page.FEWER})
        page.main([])
        for name in SMALL:  # nothing small stays behind
            for cached in vars(script(name)).values():
                getattr(cached, "cache_clear", int)()
    assert len(checked) == len(SMALL)
    assert all(isinstance(holds, bool | np.bool_) for claims in checked for holds in claims.values())
    return build


def test_all_sections_are_built(page):
    assert tuple(SMALL) == page.ORDER


def test_every_page_is_in_the_contents_of_the_site(page):
    listed = re.findall(r"^paper/(\w+)$", (GALLERY.parent / "paper.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert tuple(listed) == page.ORDER


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_page_has_every_part_of_a_section(built, name):
    text = (built / f"{name}.md").read_text(encoding="utf-8")
    heads = re.findall(r"^#+ (.*)$", re.sub(r"```python.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    assert heads[1:] == ["What to see", "Numbers"]
    pictures = re.findall(r"^```\{figure\} (.*)\n:alt: (.+)\n\n(.+)\n```$", text, re.MULTILINE)
    assert [file for file, _, _ in pictures] == [f"{name}-{picture}.png" for picture in script(name).CAPTIONS]
    assert all((built / file).read_bytes().startswith(b"\x89PNG") for file, _, _ in pictures)
    assert text.count(":::{table}") == text.count("|---|") > 0
    assert f"def {script(name).SHOWN[0]}(" in text
    assert not re.search(r"(?<!`)\{\w+\}(?! )", re.sub(r"```python.*?```", "", text, flags=re.DOTALL))


def test_a_page_says_what_is_smaller_than_it_could_be(page, built):
    for name in page.ORDER:
        text = (built / f"{name}.md").read_text(encoding="utf-8")
        assert (f"`{page.FULL}` runs all" in text) == (name in page.FEWER)


def test_nothing_in_texts_is_read_as_markdown(page):
    assert page.marked("X1 [X3 = 0] * a_b < c | `a_b | c` #") == r"X1 \[X3 = 0\] \* a\_b \< c \| `a_b | c` \#"


def test_paragraphs_are_parted_by_empty_lines(page):
    assert page.paragraphs("a `b < c`\n\nd\ne") == "a `b < c`\n\nd e"


def test_a_sentence_that_the_numbers_belie_stops_the_build(page):
    page.check_claims({"true": True})
    with pytest.raises(ValueError, match="no longer say: X1 matters; X2 doesn't"):
        page.check_claims({"X1 matters": False, "fine": True, "X2 doesn't": np.False_})


def test_a_crooked_table_is_named(page):
    with pytest.raises(TypeError, match="look at 'second'"):
        page.checked({"first": [("a", "b"), ("c", "d")], "second": [("a", "b"), ("c",)]})
    with pytest.raises(TypeError, match="look at 'third'"):
        page.checked({"third": [("a", 1)]})


def test_an_unknown_script_is_named(page):
    with pytest.raises(SystemExit, match="no such script in docs/gallery: nobody"):
        page.main(["nobody"])


@pytest.mark.parametrize("readme", [ROOT / "README.md", GALLERY / "README.md"])
def test_files_that_a_readme_names_exist(readme):
    targets = re.findall(r"\]\(([^)#\s]+)", readme.read_text(encoding="utf-8"))
    assert all((readme.parent / target).exists() for target in targets if "://" not in target)


def test_the_start_page_leads_to_the_paper():
    assert "](paper.md)" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")

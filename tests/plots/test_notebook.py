"""What results look like in a notebook: a table and a picture."""

import base64
import re
from html import escape

import pytest
from matplotlib import pyplot as plt
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer

import losslens as ll
from losslens.plots.notebook import FEW, SHOWN_LINES, _folded_notes, show
from losslens.results import Clusters, Observations, Regions, WeakSegments
from losslens.results.base import Stored
from losslens.results.table import ResultTable
from losslens.text import in_digits
from results_to_draw import importance, response, results, shapley, slopes, table, three_models


@pytest.fixture(scope="module")
def models():
    return three_models()


@pytest.fixture(scope="module")
def imp():
    return importance(table())


@pytest.fixture(scope="module")
def of_every_kind():
    return results(table())


def image(page):
    code = re.search(r'src="data:image/png;base64,([^"]+)"', page)
    return base64.b64decode(code[1]) if code else b""


def test_html_has_a_table_and_a_picture_and_leaves_the_users_figure_alone(of_every_kind):
    plt.figure()
    before = plt.get_fignums()
    for result in of_every_kind:
        page = result._repr_html_()
        assert page.count("<table>") == page.count("</table>") == 1
        assert image(page).startswith(b"\x89PNG")
        assert page.count("<div") == page.count("</div>")
    assert plt.get_fignums() == before


def test_html_has_the_numbers(imp, models):
    page = show(imp)
    for feature in imp.values():
        assert f'<td style="text-align: left">{feature.name}</td><td>{in_digits(feature.pfi)}</td>' in page
    assert page.index(">x0<") < page.index(">x3<")  # the most important first
    page = show(models["good"])
    assert f"{models['good'].share[0]:.1%}" in page


def test_every_result_shows_itself_in_a_notebook(of_every_kind):
    for kind in Stored.kinds.values():
        assert hasattr(kind, "_repr_html_") or not hasattr(kind, "to_frame"), kind
    for kind in Stored.kinds.values():  # so that the other tests look at each
        if "_table" in vars(kind) and kind.__module__ != "losslens.results.base":
            assert any(isinstance(result, kind) for result in of_every_kind), kind


def test_html_of_curves_has_their_ends():
    X = table()
    effect = ll.feature_effect(lambda X: X.to_numpy() @ slopes(4), X)["x0"]
    assert f"<td>{in_digits(effect.pd.max())}</td>" in show(effect)
    curve = shapley(X).curve("x0")
    assert f"<td>{in_digits(curve.sfimp)}</td>" in show(curve)


def test_html_escapes_names():
    X = table(2, name=lambda j: f'<script>alert("{j}")</script>&')
    for result in results(X):
        page = show(result)
        assert "<script>" not in page
        silent = isinstance(result, Regions) and not result.sentences
        silent = silent or (isinstance(result, WeakSegments) and not result.segments)
        if not silent and not isinstance(result, Observations | Clusters):  # they speak of rows
            assert "&lt;script&gt;alert(&quot;0&quot;)&lt;/script&gt;&amp;" in page


def test_html_of_many_features_is_cut_and_says_so():
    page = show(importance(table(ResultTable.most + 5, n=10)))
    assert page.count("<tr>") == ResultTable.most + 2  # with two headings
    assert "and 5 more: to_frame()" in page


def test_results_fold_and_long_tables_fold_once_more(imp):
    """A closed `details` behind the first lines; one that would hide two lines is none."""
    page = show(imp)
    assert page.startswith("<div><details open><summary")
    assert "more lines" not in page
    for features, folded in ((SHOWN_LINES + FEW, False), (SHOWN_LINES + FEW + 1, True)):
        page = show(importance(table(features, n=10)))
        assert ("<details><summary" in page) is folded
        first = page.split("<details><summary")[0]
        assert first.count("<tr>") == 1 + (SHOWN_LINES if folded else features)
        if folded:
            assert f">{FEW + 1} more lines</summary>" in page
        assert page.count("<details") == page.count("</details>")


def test_notes_fold_and_cautions_do_not():
    X = table(2)
    y = response(X)
    y[0] = 1e4  # one row decides
    result = ll.feature_importance(lambda X: X.to_numpy() @ slopes(2), X, y, loss="squared_error")
    assert result.cautions
    table_of = result._table()
    page = _folded_notes(result, [*table_of.notes, "first", "second", "third"])
    seen, folded = page.split("<details>")
    assert f"{len(table_of.notes) + 3 - len(result.cautions)} notes</small></summary>" in folded
    for caution in result.cautions:
        assert escape(caution) in seen
    assert "third" in folded
    assert "<details>" not in _folded_notes(result, ["first", "second"])


def test_html_without_a_picture_is_a_table():
    page = show(importance(table(), features=[("x0", "x1")]))
    assert "curves only" in page
    assert not image(page)


def test_html_of_scores_and_of_letters_that_the_font_lacks():
    X = table(2, name=lambda j: f"特徴{j}")
    scores = ll.feature_importance(LinearRegression().fit(X, response(X)), X, response(X), loss=get_scorer("r2"))
    assert "特徴0" in show(scores)
    assert image(show(scores))

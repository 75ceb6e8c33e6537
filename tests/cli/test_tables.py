"""Tables from files and the columns that models read."""

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression

from losslens.cli import tables
from losslens.cli.errors import suggestion
from losslens.cli.model_files import read_model
from losslens.cli.tables import read_table, rows_for
from losslens.models import as_model
from model_folder import REMAINDER, SIZES, fill
from tree_walks import XGBOOST_3_1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("files"))


@pytest.fixture
def table(folder):
    return read_table(str(folder / "t.csv"))


def model(folder, name, **options):
    return read_model(str(folder / name), **options)


@pytest.mark.parametrize("suffix", ["csv.gz", "parquet", "feather", "arrow", "ipc"])
def test_every_format_holds_the_same_rows(folder, table, suffix):
    other = read_table(str(folder / f"t.{suffix}"))
    assert list(other.columns) == list(table.columns)
    for name in table:
        assert np.array_equal(np.asarray(other[name].astype(table[name].dtype)), np.asarray(table[name]))


@pytest.mark.parametrize(("missing", "library"), [({"pandas"}, "polars"), ({"pandas", "polars"}, "pyarrow")])
@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "feather"])
def test_another_library_reads_where_pandas_is_missing(folder, monkeypatch, missing, library, suffix):
    monkeypatch.setattr(tables, "find_spec", lambda name: None if name in missing else name)
    found = read_table(str(folder / f"t.{suffix}"))
    assert type(found).__module__.partition(".")[0] == library
    rows = rows_for([model(folder, "linear.skops")], found, target="y", rows=50)
    assert type(rows.X) is type(found)
    assert len(rows.y) == 50


def test_pandas_without_pyarrow_leaves_parquet_to_polars(folder, monkeypatch):
    monkeypatch.setattr(tables, "find_spec", lambda name: None if name == "pyarrow" else name)
    assert type(read_table(str(folder / "t.parquet"))).__module__.startswith("polars")
    assert type(read_table(str(folder / "t.csv"))).__module__.startswith("pandas")


def test_no_library_at_all_is_told(folder, monkeypatch):
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="needs pandas or polars"):
        read_table(str(folder / "t.csv"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "could not read .* as CSV: No columns"),
        ("head.csv", b"a,b\n", "has no rows"),
        ("bad.parquet", b"PAR1 and no more", "could not read .* as Parquet"),
        ("bad.feather", b"nothing", "could not read .* as Feather or Arrow"),
        ("table.xlsx", b"", "unknown kind of table"),
    ],
)
def test_unreadable_tables_are_told_in_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as told:
        read_table(str(path))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("sep", "name"), [(";", "t.csv"), ("\t", "t.csv"), ("|", "t.csv"), ("\t", "t.tsv"), (";", "t.csv.gz")]
)
@pytest.mark.parametrize("missing", [(), ("pandas",), ("pandas", "polars")])
def test_other_separators_are_seen(table, tmp_path, monkeypatch, sep, name, missing):
    table.to_csv(tmp_path / name, sep=sep, index=False)
    monkeypatch.setattr(tables, "find_spec", lambda library: None if library in missing else library)
    found = nw.from_native(read_table(str(tmp_path / name)), eager_only=True)
    assert found.columns == list(table)
    assert np.array_equal(found["a"].to_numpy(), table["a"])
    named = read_table(str(tmp_path / name), {"\t": "tab"}.get(sep, sep))
    assert nw.from_native(named, eager_only=True).columns == list(table)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a,b\n1;2,3\n4;5,6\n", ["a", "b"]),  # commas are as good as any
        ("a\nx;y\n", ["a"]),  # one column
        ("a;b\n1;2;3\n", ["a;b"]),  # not certain
        ('"a;b",c\n1,2\n', ["a;b", "c"]),
        ('"a,b";c\n1;2\n', ["a,b", "c"]),
        ("\ufeffa;b\n1;2\n", ["a", "b"]),
        ('a;b\n"x\n;y";2\n', ["a", "b"]),
        ("a;b\n" + "1;2\n" * 70_000, ["a", "b"]),
    ],
)
def test_a_separator_counts_where_all_lines_agree(tmp_path, text, columns):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    if columns == ["a;b"]:
        with pytest.raises(ValueError, match=r"no target 'y'.*; if semicolons separate the columns, say so with --sep"):
            rows_for([lambda X: X], pd.DataFrame({"a;b": [1, 2]}), target="y")
        return
    assert list(read_table(str(tmp_path / "t.csv"))) == columns


def test_separators_that_are_in_doubt_or_wrong_are_told(tmp_path, folder):
    (tmp_path / "t.csv").write_text("a;b|c\n1;2|3\n")
    with pytest.raises(ValueError, match=r"separated by semicolons or vertical bars; say which with --sep$"):
        read_table(str(tmp_path / "t.csv"))
    assert list(read_table(str(tmp_path / "t.csv"), "|")) == ["a;b", "c"]
    (tmp_path / "t.csv").write_text("a;b,c\n1;2,3\n4;5,6\n")
    with pytest.raises(ValueError, match=r"separated by commas or semicolons; say which with --sep$"):
        read_table(str(tmp_path / "t.csv"))
    assert list(read_table(str(tmp_path / "t.csv"), ",")) == ["a;b", "c"]
    for wrong in ("", ";;", "a", "semicolon", '"', "."):
        with pytest.raises(ValueError, match="--sep takes one character such as"):
            read_table(str(tmp_path / "t.csv"), wrong)
    with pytest.raises(ValueError, match=r"lack columns .* if semicolons separate the columns, say so with --sep"):
        rows_for([model(folder, "linear.skops")], pd.DataFrame({"a;b;y": ["1;2;3"], "y": 1}), target="y")


def test_decimal_commas_are_told_and_not_read_as_words(tmp_path):
    """Wherever numbers are needed; a column that is left out, or a model that takes it as text, does not need them."""
    (tmp_path / "t.csv").write_text("a;b;y\n1,5;x;3\n-2,25;y;4\n")
    table = read_table(str(tmp_path / "t.csv"))
    wanted = r"column 'a' has decimal commas, such as '1,5'; write numbers with points"

    def words(X):
        return X["a"].str.len()

    numbers = LinearRegression().fit(pd.DataFrame({"a": [1.5, -2.25]}), [3.0, 4.0])
    classifier = DummyClassifier().fit([[0], [1]], ["1,5", "-2,25"])
    with pytest.raises(ValueError, match=wanted):
        rows_for([words, numbers], table, target="y")
    for wrong in ({"target": "a"}, {"target": "y", "weight": "a"}):
        with pytest.raises(ValueError, match=wanted):
            rows_for([lambda X: X["b"]], table, **wrong)
    assert list(rows_for([words], table, target="y", drop=["a"]).X) == ["b"]
    assert list(rows_for([words], table, target="y").X["a"]) == ["1,5", "-2,25"]
    assert list(rows_for([classifier], table, target="a", drop=["b"]).y) == ["1,5", "-2,25"]
    (tmp_path / "t.csv").write_text("a;b\n1,5;x\nabout 2;y\n")
    assert list(rows_for([words], read_table(str(tmp_path / "t.csv")), target="b").X["a"]) == ["1,5", "about 2"]


def test_values_do_not_move_to_other_columns(tmp_path):
    """Separators at the ends of lines are one too many; further values have no name."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2,\n3,4,\n")
    found = read_table(str(path))
    assert found["a"].tolist() == [1, 3]
    assert found["b"].tolist() == [2, 4]
    for text in ("a,b\n1,2,3\n4,5,6\n", "a,b\n1,2,3\n4,5\n", "a,b\n1,2\n3,4,5\n", "a,b\n1,2,\n3,4,5\n"):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"as CSV: .*(more values than the first line|Expected 2 fields)"):
            read_table(str(path))


@pytest.mark.parametrize("missing", [(), ("pandas",), ("pandas", "polars")])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_another_encoding_is_told(tmp_path, monkeypatch, missing, encoding):
    (tmp_path / "t.csv").write_text("a,b\n1,Zürich\n2,Genève\n", encoding=encoding)
    monkeypatch.setattr(tables, "find_spec", lambda library: None if library in missing else library)
    with pytest.raises(ValueError, match=r"as CSV: it is not UTF-8 text; save it as UTF-8$"):
        read_table(str(tmp_path / "t.csv"))


def test_a_path_that_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_table(str(tmp_path / "t.csv"))
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_table(str(tmp_path))


def test_the_model_selects_and_orders_its_columns(folder, table):
    shuffled = table[["size", "b", "y", "id", "a", "label", "weight"]]
    rows = rows_for([model(folder, "linear.skops")], shuffled, target="y", weight="weight", drop=["label"])
    assert list(rows.X.columns) == ["a", "b"]
    assert rows.notes == ("columns that the model does not use are left out: size, id",)
    assert np.array_equal(rows.y, table["y"])
    assert np.array_equal(rows.weight, table["weight"])
    assert np.array_equal(rows.column("id"), table["id"])


def test_a_nameless_model_takes_what_is_left_by_position(folder, table):
    nameless = model(folder, "nameless.skops")
    rows = rows_for([nameless], table, target="y", weight="weight", drop=["label", "id", "size"])
    assert list(rows.X.columns) == ["a", "b"]
    assert rows.notes == ()
    with pytest.raises(ValueError, match=r"takes 2 columns .* have 3 besides the target: a, b, size.* --drop"):
        rows_for([nameless], table, target="y", weight="weight", drop=["label", "id"])


def test_missing_columns_are_named_with_the_nearest(folder, table):
    with pytest.raises(ValueError, match=r"lack columns that the model needs: 'b' \('b' may be 'B'\)"):
        rows_for([model(folder, "linear.skops")], table.rename(columns={"b": "B"}), target="y")
    with pytest.raises(ValueError, match="needs the column 'b': it can't be dropped"):
        rows_for([model(folder, "linear.skops")], table, target="y", drop=["b"])


@pytest.mark.parametrize(("option", "what"), [("target", "target"), ("weight", "weight"), ("drop", "column to drop")])
def test_names_that_are_not_in_the_data(folder, table, option, what):
    wrong = {"target": "y"} | {option: ["lable"] if option == "drop" else "lable"}
    with pytest.raises(ValueError, match=f"the data have no {what} 'lable'; did you mean 'label'?"):
        rows_for([model(folder, "linear.skops")], table, **wrong)


def test_a_sample_has_a_seed_and_says_so(folder, table):
    linear = model(folder, "linear.skops")
    once, again, other = (rows_for([linear], table, target="y", rows=50, seed=seed) for seed in (1, 1, 2))
    assert once.notes[0] == "a sample of 50 of 200 rows, seed 1"
    assert np.array_equal(once.y, again.y)
    assert not np.array_equal(once.y, other.y)
    assert list(once.table["id"]) == sorted(once.table["id"])
    assert rows_for([linear], table, target="y", rows=200).notes == rows_for([linear], table, target="y").notes
    with pytest.raises(ValueError, match="at least two rows"):
        rows_for([linear], table, target="y", rows=1)


@pytest.mark.parametrize("name", [*(["xgb.ubj"] if XGBOOST_3_1 else []), "unordered.txt", "ordered.lgb"])
def test_boosters_get_their_own_categories_from_words(folder, table, name):
    """In a CSV file categories are words, in whichever order: the predictions are those for the categories."""
    booster = model(folder, name)
    kept = rows_for([booster], read_table(str(folder / "t.parquet")), target="y").X
    words = rows_for([booster], table, target="y").X
    assert list(words["size"].cat.categories) == SIZES
    predict = as_model(booster).responder("values")
    assert np.array_equal(predict(kept), predict(words))


def test_a_word_that_a_booster_has_never_seen_counts_as_missing(folder, table):
    table = table.assign(size=table["size"].replace("large", "huge"))
    rows = rows_for([model(folder, "unordered.txt")], table, target="y")
    assert "'size' has values in 62 rows that were not in the training data" in rows.notes[-1]
    assert rows.X["size"].isna().sum() == (table["size"] == "huge").sum()


def test_categories_that_are_not_in_the_file_are_refused(folder, table):
    table = table.assign(a="word")  # LightGBM's file says how many columns were categories, not which
    with pytest.raises(ValueError, match="does not list the values in order; save the data as Parquet"):
        rows_for([model(folder, "ordered.lgb")], table, target="y")


@pytest.mark.skipif(XGBOOST_3_1, reason="later releases save categories")
def test_categories_of_xgboost_before_3_1_are_refused(folder, table):
    with pytest.raises(ValueError, match="does not list the values in order; save the data as Parquet"):
        rows_for([model(folder, "xgb.ubj")], table, target="y")


def test_words_stay_words_for_other_models(folder, table):
    rows = rows_for([model(folder, "words.skops", trusted=[REMAINDER])], table, target="y")
    assert not isinstance(rows.X["size"].dtype, pd.CategoricalDtype)


def test_near_names_what_there_is():
    assert suggestion("x", ["alpha", "beta"]) == "; there is alpha, beta"
    assert suggestion("x", [f"column{k}" for k in range(12)]).endswith("... (12 in all)")
    assert suggestion("x", []) == ""


def test_several_targets_are_explained_in_python():
    rows = pd.DataFrame({"a": [1.0, 2.0], "u": [1.0, 2.0], "v": [3.0, 4.0]})
    with pytest.raises(
        ValueError, match="the target is one column, got 'u, v'; several outputs are explained in Python"
    ):
        rows_for([lambda X: X], rows, target="u, v")
    with pytest.raises(ValueError, match="the data have no target 'u,w'"):
        rows_for([lambda X: X], rows, target="u,w")

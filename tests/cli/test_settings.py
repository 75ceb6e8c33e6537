"""Settings from TOML files."""

import pytest

from losslens.cli.settings import Setting, join, read_settings, split

COMMANDS = {
    "importance": [
        Setting("target", "one", "target"),
        Setting("rows", "one", "rows"),
        Setting("features", "many", "features"),
        Setting("group", "named", "group"),
        Setting("drop", "many", "drop"),
        Setting("json", "flag", "json"),
    ],
    "compare": [
        Setting("data", "one", "data"),
        Setting("data", "named", "more_data"),
        Setting("target", "one", "target"),
        Setting("shapley", "flag", "shapley"),
    ],
}


def read(tmp_path, text, command="importance"):
    path = tmp_path / "s.toml"
    path.write_text(text)
    return read_settings(path, COMMANDS, command)


def test_a_command_takes_its_table_and_what_it_knows_of_the_top(tmp_path):
    text = 'target = "y"\nshapley = true\nrows = 5\n[importance]\nrows = 7\n[compare]\ntarget = "z"\n'
    assert read(tmp_path, text) == {"target": "y", "rows": "7"}
    assert read(tmp_path, text, "compare") == {"target": "z", "shapley": True}


def test_lists_and_tables_read_as_on_the_command_line(tmp_path):
    text = 'features = ["a", "b,c"]\ndrop = "m,T"\ngroup = {size = ["a", "b"], one = "c"}'
    assert read(tmp_path, text) == {
        "features": ["a", '"b,c"'],
        "drop": ["m,T"],
        "group": ["size=a,b", "one=c"],
    }


def test_data_is_an_argument_and_an_option_of_compare(tmp_path):
    assert read(tmp_path, 'data = "a.csv"\n[compare]\ndata = {new = "b.csv"}', "compare") == {
        "data": "a.csv",
        "more_data": ["new=b.csv"],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('tagret = "y"', "unknown key 'tagret'; did you mean 'target'?"),
        ("[compare]\nrows = 5", r"\[compare\] unknown key 'rows'"),
        ("[importence]\nrows = 5", "unknown key 'importence'; did you mean 'importance'?"),
        ("json = 1", "json takes true or false; got 1"),
        ('target = ["y"]', r"target takes one value; got \['y'\]"),
        ("rows = true", "rows takes one value; got True"),
        ("group = 3", "group takes a table of names; got 3"),
        ("features = {a = 1}", "features takes a list"),
        ("rows = ", "as TOML"),
        ("trust = true", "trust can't be set in a file, which could trust itself; type --trust instead$"),
        ("trust = false", "type --trust instead"),
        (
            '[importance]\ntrust_type = ["os.system"]',
            r"\[importance\] trust_type can't be set .* type --trust-type instead",
        ),
        ('trust-type = "sklearn.tree._tree.Tree"', "type --trust-type instead"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_settings(tmp_path / "s.toml", COMMANDS, "compare")
    with pytest.raises(IsADirectoryError, match="is a folder, not a settings file"):
        read_settings(tmp_path, COMMANDS, "compare")
    with pytest.raises(ValueError, match="the name of the settings file is empty"):
        read_settings("", COMMANDS, "compare")
    (tmp_path / "s.toml").write_bytes('target = "Größe"'.encode("latin-1"))
    with pytest.raises(ValueError, match="as TOML: it is not UTF-8 text; save it as UTF-8"):
        read_settings(tmp_path / "s.toml", COMMANDS, "compare")


@pytest.mark.parametrize("names", [["a"], ["a", "b c"], ["a,b", 'quo"te'], []])
def test_names_are_split_as_they_were_joined(names):
    assert split(join(names)) == names

"""The demo says what it is doing, and shows the first result before it begins with the rest."""

import re
from pathlib import Path
from types import SimpleNamespace

from losslens import demo


def test_a_step_is_told_when_it_begins_and_a_result_as_soon_as_it_is_there(capsys, monkeypatch, tmp_path):
    """`report`, the longest step, is replaced: what was printed when it is called is what its reader has meanwhile."""
    printed = {}
    explain = demo.ll.feature_importance

    def importance(*arguments, **options):
        printed["before the explanation"] = capsys.readouterr().out
        return explain(*arguments, **options)

    def report(*arguments, **options):
        printed["before the report"] = capsys.readouterr().out
        return SimpleNamespace(save=lambda path: Path(path).write_text("page"))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "ll", SimpleNamespace(feature_importance=importance, report=report))
    demo.main()
    printed["at the end"] = capsys.readouterr().out

    steps = [re.findall(r"^ *[\d.]+ s  (\w+)", text, flags=re.MULTILINE) for text in printed.values()]
    assert steps == [["loading", "fitting", "explaining"], ["the", "computing"], ["writing", "done"]]
    assert re.search(r"hr +24,635", printed["before the report"])
    assert re.search(r"  1 .* 26,990", printed["before the report"])
    assert Path(demo.PAGE).read_text() == "page"
    assert demo.PAGE in printed["at the end"]

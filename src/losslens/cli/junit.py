"""Verdicts of a gate as a JUnit file, which systems that run tests can read."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from losslens.cli.errors import naming_file
from losslens.results.gate import Verdict


def write_junit(path: str, verdicts: Sequence[Verdict], *, strict: bool) -> None:
    """One test a condition and model: failed, passed, or skipped where the rows can't tell."""
    suite = ET.Element("testsuite", name="losslens compare", tests=str(len(verdicts)))
    of_outcome = {"fails": "failure", "cannot tell": "failure" if strict else "skipped"}
    for one in verdicts:
        case = ET.SubElement(suite, "testcase", classname=one.model, name=one.question)
        if one.outcome in of_outcome:
            ET.SubElement(case, of_outcome[one.outcome], message=one.sentence)
    for count, kind in (("failures", "failure"), ("skipped", "skipped")):
        suite.set(count, str(len(suite.findall(f"testcase/{kind}"))))
    with naming_file(path):
        ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)

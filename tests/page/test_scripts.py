"""The scripts of the page are joined to one: no two of them may declare the same name."""

from __future__ import annotations

import re
from collections import Counter

from losslens.page.page import SCRIPTS, asset

DECLARED = re.compile(r"^(?:async )?(?:const|let|class|function\*?) (\w+)", re.MULTILINE)


def test_every_name_is_declared_once() -> None:
    names = Counter(name for script in SCRIPTS for name in DECLARED.findall(asset(f"{script}.js")))
    assert len(names) > 100
    assert [name for name, times in names.items() if times > 1] == []

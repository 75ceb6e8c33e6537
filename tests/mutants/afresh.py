"""A pytest plugin: change this process into a mutant once its tests are collected; for tests that a fork can't run."""

import os
import pickle
from pathlib import Path

from tests.mutants.run import Program


def pytest_collection_finish() -> None:
    """All modules are imported now."""
    mutant, callers = pickle.loads(Path(os.environ["LOSSLENS_MUTANT"]).read_bytes())
    Program.now().put(mutant, callers)

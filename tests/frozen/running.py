"""Calls in processes, each with a folder and models of its own: numbers don't depend on how many there are."""

import os
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.frozen.calls import CALLS
from tests.frozen.records import MODEL, RAISED, Record, in_words, record


def run(name):
    """One call, in this process and folder."""
    start, call = time.perf_counter(), CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of estimators about names of columns, and the like
        setting = call.setting()
        try:
            found = record(call.run(setting))
        except RAISED as error:
            found = Record(raised=in_words(error))
        found.numbers[MODEL] = setting.said
    found.seconds = time.perf_counter() - start
    return found


def run_all(names, jobs):
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(jobs, get_context("spawn"), _enter, (folder,)) as pool,
    ):
        return dict(zip(names, pool.map(run, names, chunksize=4), strict=True))


def _enter(folder):
    os.chdir(tempfile.mkdtemp(dir=folder))

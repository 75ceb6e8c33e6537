"""What tutorials/shell.md needs and doesn't show."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from xgboost import XGBRegressor

from losslens.datasets import bikeshare_times, load_bikeshare

checks = Path("../behind/shell.py").read_text()
os.chdir(tempfile.mkdtemp())
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
os.environ["COLUMNS"] = "100"
X, y = load_bikeshare()
days = bikeshare_times().astype("datetime64[D]")
test = np.isin(days, np.random.default_rng(0).choice(np.unique(days), 60, replace=False))
model = XGBRegressor(n_estimators=100, max_depth=4, learning_rate=0.1, enable_categorical=True, n_jobs=1)
model.fit(X[~test], y[~test]).save_model("model.json")
X[test].assign(bikes=y[test], day=days[test]).to_csv("test.csv", index=False)


def shell(commands):
    done = subprocess.run(
        ["bash", "-c", commands], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(done.stdout)
    assert done.returncode == 0
    printed.append(done.stdout)


def in_the_shell(lines):  # the cells below are commands, unless they say otherwise
    return lines if lines[0].startswith("# Python") else [f"shell({''.join(lines)!r})\n"]


printed = []
get_ipython().input_transformers_cleanup.append(in_the_shell)

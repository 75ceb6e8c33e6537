"""The picture of docs/time.md: what a model of bike hires in spring rests on later in the year.

Run it from anywhere: python docs/images/over_time.py. It runs the page's examples, and writes over_time.png here.
"""

import re
import tempfile
from contextlib import chdir
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

import losslens as ll


def main():
    page = Path(__file__).parents[1] / "time.md"
    names = {"ll": ll}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for code in re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL):
            exec(compile(code, str(page), "exec"), names)
    _, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
    names["over"].plot(ax=ax).figure.savefig(Path(__file__).with_name("over_time.png"), dpi=110)


if __name__ == "__main__":
    main()

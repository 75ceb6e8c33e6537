"""Every plot of the library on three data sets, as contact sheets that a person can look at: `make contact`."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from test_every_plot import CASES, Data

WIDTH, HEIGHT, COLUMNS = 4.6, 3.6, 4  # inches of a picture on a sheet, and pictures in a line
LONG = "average monthly household income after taxes and transfers (EUR)"


class Present(Data):
    """Missing values count as 0."""

    def numbers(self, X, j):
        return np.nan_to_num(super().numbers(X, j))


def long_names(n=90):
    rng = np.random.default_rng(1)
    names = [LONG, "years of education of the person with the highest income", "number of children under six", "noise"]
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=names)
    X[names[2]] = rng.integers(0, 4, n)
    return _noisy(X, rng)


def categories(n=90):
    rng = np.random.default_rng(2)
    X = pd.DataFrame(
        {
            "region": rng.choice(["Northern highlands", "Southern coast", "City"], n),
            "size": rng.gamma(2, 1, n),
            "has a car": rng.choice(["yes", "no"], n).astype(object),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 200, n), unit="D"),
        }
    )
    X.loc[rng.random(n) < 0.15, "has a car"] = None
    return _noisy(X, rng, scales=(10.0, 1.0, 3.0, 1e18))


def sixty(n=60):
    rng = np.random.default_rng(3)
    return _noisy(pd.DataFrame(rng.normal(size=(n, 4)).round(1), columns=["a", "b", "c", "d"]), rng)


def _noisy(X, rng, scales=(1.0,) * 4):
    plain = Present(X, np.zeros(len(X)), "pandas", 1.0, scales)
    return Present(X, plain(X) + 0.5 * rng.normal(size=len(X)), "pandas", 1.0, scales)


SHEETS = {"long names": long_names, "categories": categories, "sixty rows": sixty}


def pictures(data, folder):
    """Each picture of each plot as a file, by the name of the plot."""
    found = {}
    for name, draw in {draw.__name__: draw for draws in CASES.values() for draw in draws}.items():
        for k, drawn in enumerate(draw(data, "all", "all")):
            figure = (drawn[0] if isinstance(drawn, (list, np.ndarray)) else drawn).figure
            path = folder / f"{name}-{k}.png"
            figure.savefig(path, dpi=80)
            plt.close(figure)
            found.setdefault(name, []).append(path)
    return found


def sheet(found, path):
    """All pictures on one page, with the names of their plots."""
    every = [(f"{name} {k + 1}" if k else name, file) for name, files in found.items() for k, file in enumerate(files)]
    rows = -(-len(every) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(COLUMNS * WIDTH, rows * HEIGHT), squeeze=False)
    for ax in axes.flat:
        ax.axis("off")
    for ax, (title, file) in zip(axes.flat, every, strict=False):
        ax.imshow(plt.imread(file))
        ax.set_title(title.removeprefix("draw_"), fontsize=9)
    figure.tight_layout(pad=0.3)
    figure.savefig(path, dpi=90)
    plt.close(figure)


@pytest.mark.parametrize("name", SHEETS)
def test_a_sheet_holds_a_picture_of_every_plot(name, tmp_path):
    found = pictures(SHEETS[name](), tmp_path)
    assert set(found) == {draw.__name__ for draws in CASES.values() for draw in draws}
    sheet(found, tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").stat().st_size > 100_000


if __name__ == "__main__":
    for title, make in SHEETS.items():
        folder = Path(sys.argv[1]) / title
        folder.mkdir(parents=True, exist_ok=True)
        sheet(pictures(make(), folder), Path(sys.argv[1]) / f"{title}.png")

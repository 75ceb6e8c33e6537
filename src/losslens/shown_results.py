"""What every result does with itself: show itself in a notebook, and go into a file."""

from __future__ import annotations

from pathlib import Path


class Shown:
    """A result that notebooks show as a table and a picture."""

    def _repr_html_(self) -> str:
        from losslens.plots.html import show

        return show(self)


class Saved(Shown):
    """A result that can be written to a file."""

    def save(self, path: str | Path) -> None:
        """Write the result to one file that `losslens.load` reads back; nothing in it can run."""
        from losslens.storage import save

        save(self, path)

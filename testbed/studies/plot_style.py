"""The style of all plots, and the files that they are written to.

Series differ in colour, in line style and in the shape of their marks, so that readers can tell them apart without
colour. The colours are those of Okabe and Ito, which colour-blind readers can tell apart too. The same numbers give the
same files, byte by byte: they hold no date and no random identifiers.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.figure import Figure

from testbed.studies.store import StudyFolder

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
MARKS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: Final[Sequence[Any]] = (
    "-",
    "--",
    "-.",
    ":",
    (0, (5, 1, 1, 1, 1, 1)),
    (0, (8, 2)),
    (0, (1, 3)),
    (0, (3, 1, 1, 1)),
)
STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "testbed",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",  # matplotlib brings it along
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 5,
}
PANEL: Final = (5.2, 3.8)  # inches

_FORMATS: Final[Mapping[str, Mapping[str, Any]]] = {
    "svg": {"metadata": {"Date": None, "Creator": None}},
    "png": {"metadata": {"Software": None}, "dpi": 150},
}


def save(figures: Mapping[str, Figure], folder: StudyFolder) -> None:
    """Write each figure as SVG and as PNG, by its file name without the ending. Raises OutputError."""
    with rc_context(STYLE):
        for name, figure in figures.items():
            for ending, options in _FORMATS.items():
                file = io.BytesIO()
                figure.savefig(file, format=ending, **options)
                folder.write(f"{name}.{ending}", file.getvalue())

"""Draws charts with matplotlib as SVG elements for pages."""

import io
import re
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

# The colours have a similar lightness, so that they are visible on white and on black.
COLORS = ["#3b82d6", "#e08a2c", "#2f9e6e", "#b457c6", "#d2504a", "#8d8d2b", "#1fa0b3", "#8a7f78"]
GREY = "#8a8f94"
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # XML does not allow them
STYLE: dict = {  # rcParams
    "axes.edgecolor": GREY,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "axes.titleweight": "bold",
    "font.size": 9,
    "legend.fontsize": "small",
    "legend.frameon": False,
    "grid.alpha": 0.3,
    "grid.color": GREY,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "svg.fonttype": "none",  # writes text as text, not as paths
    "svg.hashsalt": "bert_keras",  # makes the output deterministic
    "text.parse_math": False,  # a $ in a name is not a formula
}


class Line(NamedTuple):
    """A line of a chart. Lines with the same name have one colour and one entry in the legend."""

    name: str
    points: Sequence[tuple[float, float]]


def line_chart(title: str, lines: Sequence[Line]) -> Markup:
    """Draws lines over steps as one <svg> element. Values that are not finite are omitted."""
    import matplotlib
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(line.name for line in lines))
    metadata = {"Title": title, "Date": None, "Creator": None}
    with matplotlib.rc_context(STYLE), warnings.catch_warnings(), io.StringIO() as buffer:
        warnings.filterwarnings("ignore", "Glyph")  # the browser's fonts draw the text
        figure = Figure(figsize=(4.9, 3.0), layout="constrained")
        figure.patch.set_gid("ground")
        axes, handles = figure.subplots(), {}
        axes.set_title(title)
        axes.set_xlabel("step", loc="right")
        for line in lines:
            points = np.reshape(np.asarray(line.points, np.float64), (-1, 2))
            points = points[np.isfinite(points).all(axis=1)]
            (handles[line.name],) = axes.plot(
                *points.T,
                color=COLORS[names.index(line.name) % len(COLORS)],
                marker="o" if len(points) == 1 else "",
                markersize=4,
            )
        if len(names) <= len(COLORS):
            columns = max(1, 64 // (max(map(len, names), default=0) + 8))
            legend = {"loc": "upper left", "bbox_to_anchor": (0, -0.2), "ncols": columns}
            axes.legend(handles.values(), handles, **legend)
        figure.savefig(buffer, format="svg", metadata=metadata)
        text = NOT_IN_XML.sub("\ufffd", buffer.getvalue())
    return Markup(re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S))

"""Draws charts with matplotlib, as SVG elements for pages or as picture files."""

import io
import os
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from xml.etree import ElementTree

import numpy as np
from markupsafe import Markup

from bert_keras.errors import InputError
from bert_keras.files import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.9, 3.0  # of one chart, in inches
# The colours have a similar lightness, so that they are visible on white and on black.
COLORS = ["#3b82d6", "#e08a2c", "#2f9e6e", "#b457c6", "#d2504a", "#8d8d2b", "#1fa0b3", "#8a7f78"]
GREY = "#8a8f94"
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # XML does not allow them
PICTURES = (".png", ".svg", ".pdf", ".jpg")  # supported file extensions
SVG = "http://www.w3.org/2000/svg"
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
    """A line of a chart."""

    label: str  # tooltip
    group: str  # determines the colour and has one legend entry
    points: Sequence[tuple[float, float]]


# Draws one chart and returns the tooltips of its elements by their gid.
DrawChart: TypeAlias = "Callable[[Axes], dict[str, str]]"


def line_chart(title: str, lines: Sequence[Line]) -> DrawChart:
    """Returns a chart with lines over steps. Points with values that are not finite are omitted."""

    def draw(axes: "Axes") -> dict[str, str]:
        axes.set_title(title)
        axes.set_xlabel("step", loc="right")
        groups = list(dict.fromkeys(line.group for line in lines))
        handles = {}
        for index, line in enumerate(lines):
            points = _finite(line.points)
            (drawn,) = axes.plot(
                *points.T,
                color=COLORS[groups.index(line.group) % len(COLORS)],
                marker="o" if len(points) == 1 else "",
                markersize=4,
                gid=f"line-{index}",
            )
            handles.setdefault(line.group, drawn)
        if not any(len(_finite(line.points)) for line in lines):
            axes.set(xticks=[], yticks=[])
            axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center")
        elif len(groups) <= len(COLORS):
            axes.legend(
                handles.values(),
                handles,
                loc="upper left",
                bbox_to_anchor=(0, -0.2),
                ncols=max(1, 64 // (max(map(len, groups)) + 8)),
            )
        return {f"line-{index}": line.label for index, line in enumerate(lines)}

    return draw


def scatter(title: str, points: Sequence[tuple[float, float]], *, x_axis: str) -> DrawChart:
    """Returns a scatter chart of the finite points, with the line x = y."""

    def draw(axes: "Axes") -> dict[str, str]:
        axes.set_title(title)
        axes.set_xlabel(x_axis, loc="right")
        finite = _finite(points)
        axes.scatter(*finite.T, s=12, alpha=0.5, color=COLORS[0], linewidths=0, gid="points")
        if len(finite):
            axes.axline((finite[0, 0],) * 2, slope=1, color=GREY, linewidth=1, zorder=0)
        return {}

    return draw


def bar_chart(
    title: str, bars: Sequence[tuple[str, int]], *, of: str, is_range: bool, num_ticks: int = 8
) -> DrawChart:
    """Returns a bar chart of counts by name, in percent of their sum.

    With `is_range` the names are ranges such as "10-19", and the bars touch each other.
    """

    def draw(axes: "Axes") -> dict[str, str]:
        total = max(sum(count for _, count in bars), 1)
        fractions = [count / total for _, count in bars]
        axes.set_title(title)
        axes.set_ylabel(f"% of {of}")
        axes.grid(visible=False, axis="x")
        heights, width = [100 * fraction for fraction in fractions], 1 if is_range else 0.9
        drawn = axes.bar(range(len(bars)), heights, width=width, color=COLORS[0])
        labelled = range(0, len(bars), -(-len(bars) // num_ticks) or 1)
        names = [bars[index][0] for index in labelled]
        axes.set_xticks(labelled, [n.partition("-")[0] for n in names] if is_range else names)
        for index, bar in enumerate(drawn):
            bar.set_gid(f"bar-{index}")
        return {
            f"bar-{index}": f"{name}: {count:,} ({fraction:.2%})"
            for index, ((name, count), fraction) in enumerate(zip(bars, fractions, strict=True))
        }

    return draw


def svg(draw: DrawChart) -> Markup:
    """Returns a chart as one <svg> element without an XML header."""
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings(), io.StringIO() as buffer:
        warnings.filterwarnings("ignore", "Glyph")  # the browser's fonts draw the text
        figure, (tooltips,) = _figure([draw])
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        root = ElementTree.fromstring(NOT_IN_XML.sub("\ufffd", buffer.getvalue()))
    root.attrib |= {"role": "img", "aria-label": figure.axes[0].get_title("left")}
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    for group in root.iter(f"{{{SVG}}}g"):
        if group.get("id") in tooltips:
            title = ElementTree.Element(f"{{{SVG}}}title")
            title.text = tooltips[group.attrib["id"]]
            group.insert(0, title)
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def save_picture(draws: Sequence[DrawChart], path: str | os.PathLike, *, title: str = "") -> None:
    """Draws charts in rows of three and saves them as one picture; its extension is the format."""
    import matplotlib

    with matplotlib.rc_context(STYLE), atomic_file(path) as partial_path:
        figure, _ = _figure(draws, title=title)
        figure.savefig(partial_path, dpi=120, format=Path(path).suffix[1:].lower())


def check_picture(path: str | os.PathLike, *, also: Sequence[str] = ()) -> None:
    """Raises InputError unless a picture file has one of PICTURES or `also` as its extension."""
    if Path(path).suffix.lower() not in (*PICTURES, *also):
        expected = " or ".join((*PICTURES[:1], *also))
        raise InputError(f"{path} is not a picture file; expected a name that ends in {expected}")


def _figure(
    draws: Sequence[DrawChart], *, title: str = ""
) -> "tuple[Figure, list[dict[str, str]]]":
    """Returns the figure with all charts, and the tooltips of each chart."""
    from matplotlib.figure import Figure

    columns = min(len(draws), 3)
    rows = -(-len(draws) // columns)
    figure = Figure(figsize=(WIDTH * columns, HEIGHT * rows), layout="constrained")
    figure.patch.set_gid("ground")
    if title:
        figure.suptitle(title)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in panels[len(draws) :]:
        unused.set_axis_off()
    return figure, [draw(panel) for draw, panel in zip(draws, panels, strict=False)]


def _finite(points: Sequence[tuple[float, float]]) -> np.ndarray:
    """Returns the finite points, float64 [N, 2]."""
    pairs = np.reshape(np.asarray(points, np.float64), (-1, 2))
    return pairs[np.isfinite(pairs).all(axis=1)]

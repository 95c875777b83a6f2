"""Curves and points in, SVG drawings out: for light and dark, in a page or as a file."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from bert_keras.reports.page import Html, element, markup

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 470, 280, 58, 18, 30, 40
ROW = 16  # of the legend
# Of like lightness, so that each can be seen on white and on black.
COLORS = ["#3b82d6", "#e08a2c", "#2f9e6e", "#b457c6", "#d2504a", "#8d8d2b", "#1fa0b3", "#8a7f78"]
STYLE = """.chart { color: #1c2024; font: 12px system-ui, sans-serif; } .chart text { fill:
currentColor; } .chart .grid { stroke: currentColor; opacity: .18; } @media screen and
(prefers-color-scheme: dark) { .chart { color: #e4e7ea; } }"""


class Line(NamedTuple):
    """`group` tells the colour and stands in the legend once; `label` shows under the pointer."""

    label: str
    group: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def line_chart(title: str, lines: Sequence[Line]) -> Html:
    """One line a run over its steps; values that are no numbers are left out."""
    lines = [line._replace(points=_finite(line.points)) for line in lines]
    points = [point for line in lines for point in line.points]
    start = [(0, value) for _, value in points[:1]]
    place, drawing = _axes(title, [*start, *points], "step")
    groups = list(dict.fromkeys(line.group for line in lines))
    for line in lines:
        color = _color(groups.index(line.group))
        if len(line.points) == 1:
            x, y = place(*line.points[0])
            drawing.append(element("circle", cx=x, cy=y, r=3, fill=color))
        drawing.append(
            element(
                "polyline",
                element("title", line.label),
                points=" ".join("{:.1f},{:.1f}".format(*place(*point)) for point in line.points),
                fill="none",
                stroke=color,
                stroke_width=1.6,
                stroke_dasharray="5 4" if line.dashed else "none",
            )
        )
    legend = groups if len(groups) <= len(COLORS) else []
    across = 24 + 7 * max(map(len, legend), default=0)
    in_row = max((WIDTH - LEFT) // across, 1)
    for index, group in enumerate(legend):
        x, y = LEFT + index % in_row * across, HEIGHT - 8 + index // in_row * ROW
        drawing.append(element("circle", cx=x + 5, cy=y, r=4.5, fill=_color(index)))
        drawing.append(_text(group, x + 13, y + 4))
    return _svg(title, drawing, height=HEIGHT + (len(legend) - 1) // in_row * ROW)


def scatter(title: str, points: Sequence[tuple[float, float]], *, x_axis: str) -> Html:
    """A dot for each point, and the line on which both are equal."""
    points = _finite(points)
    values = [value for point in points for value in point] or [0]
    ends = [(end, end) for end in (min(values), max(values))]
    place, drawing = _axes(title, [*points, *ends], x_axis)
    for point in points:
        x, y = place(*point)
        drawing.append(
            element(
                "circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=2.5, fill=COLORS[0], fill_opacity=0.45
            )
        )
    (x1, y1), (x2, y2) = place(*ends[0]), place(*ends[1])
    drawing.append(element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="grid", stroke_width=2))
    return _svg(title, drawing)


def _axes(title: str, points: Sequence[tuple[float, float]], x_axis: str):
    """How a point is placed, and the drawing so far: title, grid, figures beside it."""
    xs, ys = zip(*points or [(0, 0)], strict=True)
    x_low, x_high = min(xs), max(max(xs), min(xs) + 1e-9)
    x_ticks = [tick for tick in _ticks(xs) if x_low <= tick <= x_high]
    y_ticks = _ticks(ys)
    y_low, y_high = y_ticks[0], y_ticks[-1]

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - (y - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM),
        )

    drawing = [_text(title, LEFT, 16, font_weight=600)]
    drawing.append(_text(x_axis, WIDTH - RIGHT, 16, text_anchor="end", opacity=0.7))
    for tick in y_ticks:
        y = place(x_low, tick)[1]
        drawing.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        drawing.append(_text(f"{tick:g}", LEFT - 6, y + 4, text_anchor="end"))
    for tick in x_ticks:
        x = place(tick, y_low)[0]
        drawing.append(_text(f"{tick:g}", x, HEIGHT - BOTTOM + 16, text_anchor="middle"))
    return place, drawing


def _ticks(values: Sequence[float]) -> list[float]:
    """About five round numbers that span the values."""
    low, high = min(values), max(values)
    spread = 0.0 if math.isclose(low, high) else high - low  # a mean's last bit is no spread
    spread = spread or abs(high) or 1.0
    power = 10 ** math.floor(math.log10(spread / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= spread / 4)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(tick * step, 12) for tick in range(first, max(last, first + 1) + 1)]


def _finite(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [point for point in points if all(map(math.isfinite, point))]


def _color(index: int) -> str:
    return COLORS[index % len(COLORS)]


def _text(text: str, x: float, y: float, **attributes: object) -> Html:
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", **attributes)


def _svg(title: str, drawing: Sequence[Html], *, height: int = HEIGHT) -> Html:
    return element(
        "svg",
        element("style", Html(STYLE)),
        markup(*drawing),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        class_="chart",
        role="img",
        aria_label=title,
    )

"""Histograms come in; one picture of them goes out: an image, or a page that needs nothing else."""

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from bert_keras.errors import InputError
from bert_keras.storage import whole_file
from tfrecords_tools.inspect.stats import Histogram

MOST_BARS = 130  # at 128 positions each has its own
_IMAGES = (".png", ".svg", ".pdf")
_PAGES = (".html", ".htm")
_WIDTH, _HEIGHT, _BASE = 420, 190, 150  # of a panel, and where its bars stand

_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
:root {{ color-scheme: light dark; --bar: #3b6ea8; --line: #8888; }}
@media (prefers-color-scheme: dark) {{ :root {{ --bar: #7aa7d9; }} }}
body {{ font: 15px/1.4 system-ui, sans-serif; margin: 2rem; }}
main {{ display: flex; flex-wrap: wrap; gap: 1.5rem 2rem; }}
figure {{ margin: 0; }}
figcaption {{ font-weight: 600; }} figcaption small {{ font-weight: 400; opacity: .75; }}
rect {{ fill: var(--bar); shape-rendering: crispEdges; }} rect:hover {{ opacity: .6; }}
line {{ stroke: var(--line); }} svg {{ overflow: visible; }}
text {{ fill: currentColor; font-size: 12px; }}
</style></head>
<body><h1>{title}</h1><main>
{figures}
</main></body></html>
"""


def check_picture(path: str | os.PathLike) -> None:
    """InputError where `path` is no kind of picture, before long work is done for it."""
    if Path(path).suffix.lower() not in (*_IMAGES, *_PAGES):
        raise InputError(f"{path} is no picture; expected a name that ends in .png or .html")


def plot(histograms: Sequence[Histogram], path: str | os.PathLike, *, title: str) -> None:
    """Writes all histograms, one panel each, as the ending of `path` says."""
    check_picture(path)
    with whole_file(path) as part:
        if Path(path).suffix.lower() in _PAGES:
            part.write_text(page(histograms, title=title), encoding="utf-8")
        else:
            _save_image(histograms, part, title=title, kind=Path(path).suffix[1:].lower())


def page(histograms: Sequence[Histogram], *, title: str) -> str:
    """One HTML page with inline SVG; a bar tells its numbers when pointed at."""
    figures = "\n".join(_figure(histogram) for histogram in histograms)
    return _PAGE.format(title=escape(title), figures=figures)


def _figure(histogram: Histogram) -> str:
    bars = histogram.bars(MOST_BARS)
    total = max(sum(count for _, count in bars), 1)
    largest = max((count for _, count in bars), default=1)
    step = _WIDTH / max(len(bars), 1)
    gap = 4 if histogram.names else 0
    labelled = range(0, len(bars), -(-len(bars) // 8) or 1)  # eight fit below the line
    drawn = [f'<line x1="0" x2="{_WIDTH}" y1="{_BASE}" y2="{_BASE}"/>']
    for number, (name, count) in enumerate(bars):
        height = (_BASE - 20) * count / largest
        told = escape(f"{name}: {count:,} ({count / total:.2%})")
        drawn.append(
            f'<rect x="{number * step:.2f}" y="{_BASE - height:.1f}" width="{step - gap:.2f}" '
            f'height="{height:.1f}"><title>{told}</title></rect>'
        )
        if number in labelled:
            drawn.append(
                f'<text x="{(number + 0.5) * step:.1f}" y="{_BASE + 16}" text-anchor="middle">'
                f"{escape(_tick(histogram, name))}</text>"
            )
    drawn.append(f'<text x="0" y="12">{largest / total:.1%}</text>')
    head, _, rest = histogram.summary().partition(" (")
    caption = f"{escape(head)} <small>{escape(rest.rstrip(')'))}</small>"
    return (
        f'<figure><figcaption>{caption}</figcaption><svg width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(drawn)}</svg></figure>'
    )


def _tick(histogram: Histogram, name: str) -> str:
    """What stands below a bar: of a range where it begins."""
    return name if histogram.names else name.partition("-")[0]


def _save_image(histograms: Sequence[Histogram], path: Path, *, title: str, kind: str) -> None:
    from matplotlib.figure import Figure

    columns = min(len(histograms), 3)
    rows = -(-len(histograms) // columns)
    figure = Figure(figsize=(4.6 * columns, 3 * rows + 0.4), layout="constrained")
    figure.suptitle(title)
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for panel in panels[len(histograms) :]:
        panel.set_axis_off()
    for panel, histogram in zip(panels, histograms, strict=False):
        bars = histogram.bars(MOST_BARS)
        total = max(sum(count for _, count in bars), 1)
        places = range(len(bars))
        width = 0.9 if histogram.names else 1
        panel.bar(places, [100 * count / total for _, count in bars], width=width)
        shown = places[:: -(-len(bars) // 7) or 1]
        panel.set_xticks(shown, [_tick(histogram, bars[place][0]) for place in shown])
        panel.set_title(histogram.title)
        panel.set_ylabel(f"% of {histogram.of}")
        panel.grid(axis="y", alpha=0.3)
        panel.set_axisbelow(True)
    figure.savefig(path, dpi=120, format=kind)

"""Draws histograms of records as an image or as an HTML page that needs no other file."""

import os
from collections.abc import Sequence
from pathlib import Path

from bert_keras.reports.charts import Draw, bar_chart, save_picture, svg
from bert_keras.reports.charts import check_picture as check_ending
from bert_keras.reports.page import render
from bert_keras.storage import write_text
from tfrecords_tools.inspect.stats import Histogram

MOST_BARS = 130  # at 128 positions each has its own
PAGES = (".html", ".htm")


def check_picture(path: str | os.PathLike) -> None:
    """Raises InputError where `path` is no kind of picture, before long work is done for it."""
    check_ending(path, also=PAGES)


def plot(histograms: Sequence[Histogram], path: str | os.PathLike, *, title: str) -> None:
    """Writes all histograms, one chart each, into a file of the kind that `path` ends in."""
    check_picture(path)
    if Path(path).suffix.lower() in PAGES:
        write_text(path, _page(histograms, title=title))
    else:
        drawn = [_chart(histogram, title=histogram.title) for histogram in histograms]
        save_picture(drawn, path, title=title)


def _page(histograms: Sequence[Histogram], *, title: str) -> str:
    """An HTML page whose bars have tooltips with their numbers."""
    figures = []
    for histogram in histograms:
        caption, _, note = histogram.summary().partition(" (")
        figures.append((caption, note.removesuffix(")"), svg(_chart(histogram))))
    return render("charts.html", title=title, figures=figures)


def _chart(histogram: Histogram, *, title: str = "") -> Draw:
    return bar_chart(
        title, histogram.bars(MOST_BARS), of=histogram.of, is_range=not histogram.names
    )

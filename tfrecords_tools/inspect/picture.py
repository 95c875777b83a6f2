"""Draws histograms of records as an image or as a self-contained HTML page."""

import os
from collections.abc import Sequence
from pathlib import Path

from bert_keras.files import write_text
from bert_keras.reports.charts import DrawChart, bar_chart, save_picture, svg
from bert_keras.reports.charts import check_picture as check_ending
from bert_keras.reports.page import render
from tfrecords_tools.inspect.histograms import Histogram

MAX_BARS = 130  # each of 128 positions has its own bar
PAGES = (".html", ".htm")


def check_picture(path: str | os.PathLike) -> None:
    """Raises InputError if the suffix of `path` is not a supported kind of picture.

    It is called before the records are read, which may take long.
    """
    check_ending(path, also=PAGES)


def plot(histograms: Sequence[Histogram], path: str | os.PathLike, *, title: str) -> None:
    """Writes one chart for each histogram to a file; the suffix of `path` decides its format."""
    check_picture(path)
    if Path(path).suffix.lower() in PAGES:
        write_text(path, _page(histograms, title=title))
    else:
        charts = [_chart(histogram, title=histogram.title) for histogram in histograms]
        save_picture(charts, path, title=title)


def _page(histograms: Sequence[Histogram], *, title: str) -> str:
    """Returns an HTML page; the bars have tooltips with their values."""
    figures = []
    for histogram in histograms:
        caption, _, note = histogram.summary().partition(" (")
        figures.append((caption, note.removesuffix(")"), svg(_chart(histogram))))
    return render("charts.html", title=title, figures=figures)


def _chart(histogram: Histogram, *, title: str = "") -> DrawChart:
    return bar_chart(title, histogram.bars(MAX_BARS), of=histogram.of, is_range=not histogram.names)

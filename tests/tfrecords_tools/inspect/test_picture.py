import struct
from xml.etree import ElementTree

import numpy as np
import pytest

from bert_keras.errors import InputError
from tfrecords_tools.inspect.picture import page, plot
from tfrecords_tools.inspect.stats import Histogram

HISTOGRAMS = [
    Histogram("pieces in a record", "records", np.arange(129)),
    Histogram("next <sentence>", "labels", np.array([3, 1]), ("true next", "random next")),
    Histogram("nothing", "records", np.zeros(0, np.int64)),
]


def test_the_page_has_every_bar_and_needs_nothing_else():
    html = page(HISTOGRAMS, title="records & more")
    tree = ElementTree.fromstring(html.removeprefix("<!doctype html>").replace("&nbsp;", " ")
                                  .replace('<meta charset="utf-8">', ""))  # fmt: skip
    figures = tree.findall(".//figure")
    assert [len(figure.findall(".//rect")) for figure in figures] == [128, 2, 0]
    told = [title.text for title in figures[1].iter("title")]
    assert told == ["true next: 3 (75.00%)", "random next: 1 (25.00%)"]
    heights = [float(bar.get("height")) for bar in figures[1].iter("rect")]
    assert heights[0] == pytest.approx(3 * heights[1], abs=0.2)
    assert "next &lt;sentence&gt;" in html
    assert "http" not in html and "<script" not in html


def test_pages_and_images_are_written_by_the_ending(tmp_path):
    plot(HISTOGRAMS, tmp_path / "a.html", title="records")
    assert (tmp_path / "a.html").read_text() == page(HISTOGRAMS, title="records")
    with pytest.raises(InputError, match=r"a\.txt is no picture; expected .* \.png or \.html"):
        plot(HISTOGRAMS, tmp_path / "a.txt", title="records")


def test_images(tmp_path):
    plot(HISTOGRAMS, tmp_path / "a.PNG", title="records")
    data = (tmp_path / "a.PNG").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width > 1000 and height > 300
    assert [path.name for path in tmp_path.iterdir()] == ["a.PNG"]

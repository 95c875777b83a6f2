import re
import struct
from xml.etree import ElementTree

import numpy as np
import pytest

from bert_keras.errors import InputError
from tfrecords_tools.inspect.histograms import Histogram
from tfrecords_tools.inspect.picture import plot

SVG = "{http://www.w3.org/2000/svg}"
HISTOGRAMS = [
    Histogram("tokens in a record", "records", np.arange(129)),
    Histogram("next <sentence>", "labels", np.array([3, 1]), ("true next", "random next")),
    Histogram("nothing", "records", np.zeros(0, np.int64)),
]


def test_html_page_has_all_bars_and_no_external_resources(tmp_path):
    plot(HISTOGRAMS, tmp_path / "a.html", title="records & more")
    html = (tmp_path / "a.html").read_text("utf-8")
    assert "<h1>records &amp; more</h1>" in html
    figures = [
        ElementTree.fromstring(f"<svg{part.partition('</svg>')[0]}</svg>")
        for part in html.split("<svg")[1:]
    ]
    bars = [[group for group in figure.iter(f"{SVG}g") if group.find(f"{SVG}title") is not None]
            for figure in figures]  # fmt: skip
    assert [len(each) for each in bars] == [128, 2, 0]
    tooltips = [bar.find(f"{SVG}title").text for bar in bars[1]]
    assert tooltips == ["true next: 3 (75.00%)", "random next: 1 (25.00%)"]
    heights = []
    for bar in bars[1]:
        ys = [float(y) for y in re.findall(r"[ML] \S+ (\S+)", bar.find(f"{SVG}path").get("d"))]
        heights.append(max(ys) - min(ys))
    assert heights[0] == pytest.approx(3 * heights[1], abs=0.2)
    assert "next &lt;sentence&gt;" in html
    without_names = re.sub(r'xmlns(:xlink)?="[^"]*"', "", html)
    assert "http:" not in without_names and "https" not in html and "<script" not in html


def test_unknown_suffix_is_refused(tmp_path):
    with pytest.raises(
        InputError, match=r"a\.txt is not a picture file; expected .* \.png or \.html"
    ):
        plot(HISTOGRAMS, tmp_path / "a.txt", title="records")


def test_png_image(tmp_path):
    plot(HISTOGRAMS[1:], tmp_path / "a.PNG", title="records")
    data = (tmp_path / "a.PNG").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width > 900 and height > 300
    assert [path.name for path in tmp_path.iterdir()] == ["a.PNG"]

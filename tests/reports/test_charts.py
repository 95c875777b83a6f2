"""Charts: lines, tooltips, escaped names and deterministic output."""

import xml.etree.ElementTree as ElementTree

import pytest

from bert_keras.errors import InputError
from bert_keras.reports.charts import Line, bar_chart, check_picture, line_chart, scatter, svg

SVG = "{http://www.w3.org/2000/svg}"


def tooltips(chart):
    """Returns the path data of each group with a tooltip, by tooltip."""
    return {
        group.find(f"{SVG}title").text: [path.get("d") for path in group.iter(f"{SVG}path")]
        for group in ElementTree.fromstring(chart).iter(f"{SVG}g")
        if group.find(f"{SVG}title") is not None
    }


def test_lines_have_tooltips_and_omit_values_that_are_not_finite():
    lines = [Line("a, seed <1>", "a & b", [(1, 0.5), (2, float("nan")), (3, 0.1)]),
             Line("seed 2", "$c", [(5, 2.0)])]  # fmt: skip
    chart = svg(line_chart("loss <b>", lines))
    paths = tooltips(chart)
    assert paths.keys() == {"a, seed <1>", "seed 2"}
    assert paths["a, seed <1>"][0].split().count("L") == 1 and "nan" not in chart
    for character in ("\x01", "\uffff"):
        assert "\ufffdloss" in svg(scatter(f"{character}loss", [], x_axis="分数"))
    assert "a &amp; b" in chart and "$c" in chart and "<b>" not in chart
    assert "http" not in chart.replace("http://www.w3.org/", "")
    assert chart.startswith("<svg") and chart == svg(line_chart("loss <b>", lines))


def test_charts_without_data_are_drawn():
    assert "no values" in svg(line_chart("loss", [Line("a", "b", [])]))
    assert "<use" not in svg(scatter("s", [], x_axis="x")).partition('id="points"')[2]
    assert svg(bar_chart("b", [], of="rows", is_range=True)).startswith("<svg")


def test_other_extensions_than_those_of_pictures_are_refused(tmp_path):
    check_picture(tmp_path / "a.PNG")
    for name in ("a.txt", "a.html"):
        with pytest.raises(InputError, match=rf"{name} is not a picture file; expected"):
            check_picture(tmp_path / name)

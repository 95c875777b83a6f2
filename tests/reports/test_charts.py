"""Charts: lines, escaped names and deterministic output."""

import xml.etree.ElementTree as ElementTree

from bert_keras.reports.charts import Line, line_chart


def test_lines_omit_values_that_are_not_finite_and_names_are_escaped():
    lines = [Line("a & b", [(1, 0.5), (2, float("nan")), (3, 0.1)]), Line("$c", [(5, 2.0)])]
    chart = line_chart("loss <b> \x01\uffff", lines)
    drawing = ElementTree.fromstring(chart)
    assert drawing.find("{http://www.w3.org/2000/svg}title").text == "loss <b> \ufffd\ufffd"
    assert "a &amp; b" in chart and "$c" in chart and "<b>" not in chart and "nan" not in chart
    assert "http" not in chart.replace("http://www.w3.org/", "")
    assert chart.startswith("<svg") and chart == line_chart("loss <b> \x01\uffff", lines)


def test_charts_without_data_are_drawn():
    assert line_chart("loss", []).startswith("<svg")
    assert line_chart("loss", [Line("a", [])]).startswith("<svg")

"""The page of `bert-keras inspect`: escaped texts, wrong arguments, and what a browser shows."""

import html
import re
import shlex

import pytest

from bert_keras.cli import main
from bert_keras.reports.inspection import MAX_TOKENS, inspect_texts
from tests.browser import browser_page
from tests.inspected import data_of, weights_of
from tests.reports.conftest import TEXT

UNSAFE = "</script><script>document.title='broken'</script>{{data}} bank"


def test_the_page_loads_no_other_files_and_escapes_texts(folders, tmp_path):
    output = tmp_path / "new" / "page.html"
    inspect_texts(folders["pretrainer"][0], [UNSAFE], output=output)
    page = output.read_text("utf-8")
    assert not re.search(r"https?://|src=|@import|url\(|\bfetch\(|\bimport\(", page)
    assert "default-src 'none'" in page
    assert page.count("<script") == page.count("</script>") == 2
    assert html.escape(str(folders["pretrainer"][0])) in page


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ("{folder} a b money", "3 texts"),
        ("{folder} money ' '", "' '"),
        (f"{{folder}} '{' '.join(['money'] * MAX_TOKENS)}'", f"has {MAX_TOKENS + 2} tokens"),
        ("{folder} money --top-k 0", "0"),
        ("{tmp} money", "known checkpoint"),
        ("{tmp}/nowhere money", "does not exist"),
    ],
)
def test_wrong_arguments_are_refused(folders, tmp_path, capsys, arguments, word):
    arguments = shlex.split(arguments.format(folder=folders["encoder"][0], tmp=tmp_path))
    assert main(["inspect", *arguments, "-o", str(tmp_path / "page.html")]) == 2
    printed = capsys.readouterr()
    assert word in printed.err and printed.err.count("\n") == 1 and not printed.out
    assert not (tmp_path / "page.html").exists()


def test_the_command_prints_the_path_of_the_page(folders, tmp_path, capsys):
    folder, _ = folders["pretrainer"]
    output = tmp_path / "page.html"
    assert main(["inspect", str(folder), "a [MASK]", "-o", str(output), "--top-k", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"page: {output}"
    data = data_of(output)
    assert len(data["masked"]["predictions"][0]["top"]) == 3


def press_key(page, name, code):
    for kind in ("keyDown", "keyUp"):
        page._call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                   windowsVirtualKeyCode=code)  # fmt: skip


def choose(page, element, value):
    page.run(f"{{ const box = document.getElementById('{element}'); box.value = '{value}'; "
             "box.dispatchEvent(new Event('change')); }")  # fmt: skip


def point_at_the_last_cell(page):
    """Moves the pointer to the last cell of the map and returns its opacity, 0 to 255."""
    x, y, opacity = page.run("""(() => {
      const map = document.getElementById("map"), from = 6 * (devicePixelRatio || 1);
      map.scrollIntoView({block: "center"});
      const {right, bottom} = map.getBoundingClientRect();
      return [right - 6, bottom - 6, map.getContext("2d").getImageData(
        map.width - from, map.height - from, 1, 1).data[3]];
    })()""")
    page._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    return opacity


def percent(fraction):
    digits = 1 if fraction < 0.0995 else 0
    return "< 0.1 %" if 0 < fraction < 0.0005 else f"{100 * fraction:.{digits}f} %"


@pytest.mark.slow
def test_a_browser_shows_the_page_and_keys_select_maps_and_tokens(folders, tmp_path):
    output = tmp_path / "page.html"
    inspect_texts(folders["pretrainer"][0], ["The bank of the [MASK].", UNSAFE], output=output)
    data = data_of(output)
    weights, tokens = weights_of(data), data["attention"]["tokens"]
    last = len(tokens) - 1
    with browser_page(width=1200, height=900) as page:
        page.open(output.as_uri())
        text = page.wait_for("Attention", "Masked words")
        assert "BertPretrainer: 2 layers of 4 heads, hidden size 24" in text
        assert "The second text follows the first with a probability of" in text
        assert percent(data["masked"]["predictions"][0]["top"][0][1]) in text
        assert page.run("document.querySelectorAll('#grid button').length") == 10  # with the means
        # Tab reaches the grid once; the arrow keys choose the next map in a row or column.
        page.run("document.querySelector('#grid button[tabindex=\"0\"]').focus()")
        press_key(page, "Home", 36)
        press_key(page, "ArrowDown", 40)
        page.wait_for("Layer 2, mean of the heads: a token attends on average to")
        press_key(page, "ArrowRight", 39)
        press_key(page, "ArrowRight", 39)
        page.wait_for("Layer 2, head 2: a token attends on average to")
        assert page.run("[document.activeElement.dataset.layer, document.activeElement.title]") == [
            "2",
            "layer 2, head 2",
        ]
        opacity = point_at_the_last_cell(page)
        page.wait_for(f"{tokens[-1]} ({last}) attends to {tokens[-1]} ({last}): "
                      f"{weights[1, 1, -1, -1]:.4f}")  # fmt: skip
        assert opacity == pytest.approx(255 * weights[1, 1, -1, -1] / weights[1, 1].max(), abs=2)
        page._call("Input.dispatchMouseEvent", type="mouseMoved", x=0, y=0)
        assert page.run("document.getElementById('tip').hidden")
        page.run("document.querySelector('#tokens button[value=\"1\"]').focus()")
        press_key(page, "ArrowRight", 39)
        row = weights[1, 1, 2]
        best = int(row.argmax())
        page.wait_for(f"bank (2) attends to {tokens[best]} {percent(row[best])}")
        choose(page, "side", "column")
        column = weights[1, 1, :, 2]
        best = int(column.argmax())
        page.wait_for(f"is attended to by {tokens[best]} {percent(column[best])}")
        choose(page, "among", "across")
        choose(page, "head", "0")
        page.wait_for("bank (2) is not among the shown tokens", "mean of the heads")
        choose(page, "side", "row")
        page.picture(tmp_path / "page.png")
        assert (tmp_path / "page.png").stat().st_size > 20_000
        assert page.run("document.title") == f"Inspection of {folders['pretrainer'][0]}"


@pytest.mark.slow
def test_a_browser_shows_the_least_probable_token_first(folders, tmp_path):
    output = tmp_path / "page.html"
    inspect_texts(folders["masked-lm"][0], [TEXT], output=output, num_tokens=2)
    predictions = data_of(output)["masked"]["predictions"]
    least = min(predictions, key=lambda each: each["original"][1])
    with browser_page(width=500, height=800) as page:
        page.open(output.as_uri())
        text = page.wait_for(f"Predictions for {least['original'][0]} ({least['position']})")
        assert f"rank {least['original'][2]}" in text
        page.run("document.querySelector('#masked button').focus()")
        page.wait_for(f"Predictions for {predictions[0]['original'][0]} (1)")
        assert page.run("document.documentElement.scrollWidth") <= 500

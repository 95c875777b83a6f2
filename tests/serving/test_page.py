"""The HTML page at /: its response, and its rendering in a headless Chromium."""

import json
import math
import re
import time
from functools import partial

import pytest
import tensorflow as tf

from bert_keras.serving.app import page_response
from bert_keras.serving.server import running_server
from tests.browser import browser_page
from tests.serving.conftest import save, spec

BROWSER = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
IN_BROWSER = pytest.mark.slow
UNSAFE = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"


def test_a_browser_gets_the_page_and_other_clients_get_the_response_of_tf_serving(send, server_of):
    url = server_of("half_plus_two")
    response = send(url, "GET", "/", headers=BROWSER)
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert response.status_code == 200 and b'content="half_plus_two"' in response.content
    assert send(url, "GET", "/").status_code == 404
    assert send(url, "GET", "/x", headers=BROWSER).status_code == 404


def test_the_page_needs_no_other_files_and_may_run_only_its_own_script():
    response = page_response('a"><script>alert(1)</script>')
    text = response.body.decode()
    assert text.count("<script>") == 1 and "{{" not in text
    assert 'content="a&#34;&gt;&lt;script&gt;' in text
    assert not re.search(r"https?://|src=|@import|url\(", text)
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert re.search(r"script-src 'sha256-[\w+/]{43}=';", policy)


@pytest.fixture
def page():
    with browser_page(width=900, height=700) as page:
        yield page


def type_text(page, text, *, field="text"):
    """Types into a field with input events, as a user does, once the page has the field."""
    while not page.run(f"document.getElementsByName({json.dumps(field)}).length"):
        time.sleep(0.05)
    page.run(f"document.getElementsByName({json.dumps(field)})[0].select()")
    page.call("Input.insertText", text=text)


def press_enter(page, *, shift=False):
    key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, modifiers=8 if shift else 0, **key)


def submit(page, text, *, field="text"):
    type_text(page, text, field=field)
    press_enter(page)


@IN_BROWSER
def test_a_classifier(tmp_path, page):
    def classify(text):
        length = tf.cast(tf.strings.length(text, unit="UTF8_CHAR"), tf.float32)
        probabilities = tf.stack([length, 12.0 - length], axis=1) / 12.0
        names = tf.constant(["long", "short <b>"])
        label = tf.gather(names, tf.argmax(probabilities, axis=1))
        labels = tf.tile(names[None], [tf.size(text), 1])
        return {"label": label, "labels": labels, "probabilities": probabilities}

    texts = spec("text", tf.string, None)
    save(tmp_path / "films" / "7", {"serving_default": (classify, texts)})
    with running_server(tmp_path / "films") as url:
        page.open(f"{url}/")
        page.wait_for("films", "version 7", "Enter sends")
        type_text(page, "nine")
        press_enter(page, shift=True)
        page.call("Input.insertText", text="abcd")
        press_enter(page)
        page.wait_for("long", "75.0 %", "short <b>", "25.0 %", "Request and response")
        assert page.run("document.querySelector('.bars .chosen').textContent") == "long75.0 %"
        submit(page, "éèà")
        page.wait_for("short <b> 75.0 % long 25.0 %")
        submit(page, " ")
        page.wait_for("Text is empty; enter a value.")


def entities(text, *spans):
    """A text of a tagger, its prediction and what the page shows of it."""
    names, labels = [span for span, _ in spans], [label for _, label in spans]
    starts = [text.index(name) for name in names]
    ends = [start + len(name) for start, name in zip(starts, names, strict=True)]
    prediction = {"entities": names, "labels": labels, "starts": starts, "ends": ends}
    prediction["scores"] = [0.875] * len(spans)
    shown = [f"{len(spans) or 'No'} spans found", *["Probability", "87.5 %"][: 2 * len(spans)]]
    return {"text": text}, prediction, shown, names


def answer(question, span, *shown):
    passage = "In 1905 💡 Einstein wrote four papers."
    start = passage.index(span)
    prediction = {"answer": span, "start": start, "end": start + len(span)}
    prediction |= {"score": 7.25, "no_answer_score": -1.5}
    return {"question": question, "context": passage}, prediction, shown, [span] if span else []


@IN_BROWSER
@pytest.mark.parametrize(
    ("fields", "prediction", "shown", "marked"),
    [
        entities("🎉👩‍👩‍👧 Angela met 𝒪𝓉𝓉𝑜\nin Bern.", ("Angela", "PER"), ("𝒪𝓉𝓉𝑜", "PER")),
        entities("זרה אנגלה בברן אתמול", ("אנגלה", "PER"), ("ברן", "LOC")),
        entities(f"Ann {UNSAFE} in <b>Bern</b>", ("<script>", "<i>x"), ("Bern", "LOC")),
        entities("nobody"),
        answer("Who?", "Einstein", "no_answer_score", "7.25"),
        answer("Why?", "", "The passage contains no answer."),
    ],
)
def test_spans(tmp_path, page, fields, prediction, shown, marked):
    def predict(*_):
        return {name: tf.constant([value]) for name, value in prediction.items()}

    inputs = [spec(name, tf.string, None) for name in fields]
    save(tmp_path / "m" / "1", {"serving_default": (predict, *inputs)})
    with running_server(tmp_path / "m") as url:
        page.open(f"{url}/")
        *others, last = fields
        for name in others:
            type_text(page, fields[name], field=name)
        submit(page, fields[last], field=last)
        page.wait_for(*shown)
        marks = "[...document.querySelectorAll('mark')].map(mark => mark.firstChild.data)"
        assert page.run(marks) == marked
        text = page.run(
            "(text => { text.querySelectorAll('small').forEach(each => each.remove());"
            " return text.textContent; })(document.querySelector('.text').cloneNode(true))"
        )
        assert text == fields[last]
        assert page.run("document.title") == "m"
        assert page.run("document.querySelectorAll('img, .text script, .text b').length") == 0


@IN_BROWSER
def test_pairs_versions_numbers_and_errors(tmp_path, page):
    def score(number, text, text_pair):
        equal = tf.debugging.assert_equal(text, "A plane.", f"no {UNSAFE}")
        with tf.control_dependencies([equal]):
            return {"score": tf.strings.to_number(text_pair) * [number]}

    texts = [spec(name, tf.string, None) for name in ("text", "text_pair")]
    for number, version in ((math.nan, "9"), (0.25, "10")):
        save(tmp_path / "m" / version, {"serving_default": (partial(score, number), *texts)})
    with running_server(tmp_path / "m", versions=[9, 10]) as url:
        page.open(f"{url}/")
        page.wait_for("Second text", "version 10 9")
        type_text(page, "A plane.")
        submit(page, "13", field="text_pair")
        page.wait_for("score", "3.25", '"text_pair":"13"')
        submit(page, "A train.")
        page.wait_for("The server returned 400: ", "no <script>")
        page.run("document.getElementById('versions').value = '9'")
        page.run("document.getElementById('versions').dispatchEvent(new Event('change'))")
        while page.run("document.getElementById('result').children.length"):
            time.sleep(0.05)
        submit(page, "A plane.")
        page.wait_for("score NaN")
    press_enter(page)
    page.wait_for("The server does not respond. Is it still running?")
    assert page.run("document.title") == "m"


@IN_BROWSER
def test_the_embeddings_of_two_texts_are_compared(server_of, page):
    page.open(f"{server_of('letters')}/")
    page.wait_for("Second text")
    type_text(page, "abcd <i>")
    submit(page, "aad", field="second")
    page.wait_for("Cosine similarity", "0.9037", "abcd <i>", "0.5, 0.5, 0.5, 0.5")
    assert page.run("document.querySelector('.fill').style.width.slice(0, 4)") == "90.3"

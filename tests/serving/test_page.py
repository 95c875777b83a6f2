"""The HTML page at /: its response, and its rendering in a headless Chromium."""

import json
import re
import time

import pytest
import tensorflow as tf

from bert_keras.serving.app import page_response
from bert_keras.serving.server import running_server
from tests.browser import browser_page
from tests.serving.conftest import embedder, save, spec
from tests.serving.scripted import json_reply, scripted_server

BROWSER = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
IN_BROWSER = pytest.mark.slow
UNSAFE = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
TEXT = {"text": ("DT_STRING", 1)}


def test_a_browser_gets_the_page_and_other_clients_get_the_response_of_tf_serving(send, server_of):
    url = server_of("half_plus_two")
    response = send(url, "GET", "/", headers=BROWSER)
    assert (response.status, response.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b'content="half_plus_two"' in response.body
    assert send(url, "GET", "/").status == 404
    assert send(url, "GET", "/x", headers=BROWSER).status == 404


def test_the_page_needs_no_other_files_and_may_run_only_its_own_script():
    response = page_response('a"><script>alert(1)</script>')
    text = response.body.decode()
    assert text.count("<script>") == 1 and "{{" not in text
    assert 'content="a&#34;&gt;&lt;script&gt;' in text
    assert not re.search(r"https?://|src=|@import|url\(", text)
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert re.search(r"script-src 'sha256-[\w+/]{43}=';", policy)


def served(inputs, outputs, predict, *, versions=("1",)):
    """A reply function of a model that responds to one instance with `predict(instance)`."""
    states = [{"version": each, "state": "AVAILABLE", "status": {}} for each in versions]
    inputs = {
        name: {"dtype": dtype, "tensor_shape": {"dim": [{"name": "", "size": "-1"}] * rank}}
        for name, (dtype, rank) in inputs.items()
    }
    signature = {"inputs": inputs, "outputs": {name: {} for name in outputs}}
    metadata = {"signature_def": {"signature_def": {"serving_default": signature}}}

    def reply(method, path, body):
        if path == "/":
            page = page_response("m")
            return 200, dict(page.headers), page.body
        if method == "POST":
            return predict(json.loads(body)["instances"][0])
        if path.endswith("/metadata"):
            return json_reply({"metadata": metadata})
        return json_reply({"model_version_status": states})

    return reply


def row(document):
    return json_reply({"predictions": [document]})


@pytest.fixture
def page():
    with browser_page(width=900, height=700) as page:
        yield page


def type_text(page, text, *, field="text"):
    """Types into a field with input events, as a user does, once the page has the field."""
    while not page.run(f"document.getElementsByName({json.dumps(field)}).length"):
        time.sleep(0.05)
    page.run(f"document.getElementsByName({json.dumps(field)})[0].select()")
    page._call("Input.insertText", text=text)


def press_enter(page, *, shift=False):
    key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
    for kind in ("keyDown", "keyUp"):
        page._call("Input.dispatchKeyEvent", type=kind, modifiers=8 if shift else 0, **key)


def submit(page, text, *, field="text"):
    type_text(page, text, field=field)
    press_enter(page)


def marks(page):
    return page.run("[...document.querySelectorAll('mark')].map(mark => mark.firstChild.data)")


@IN_BROWSER
def test_a_classifier_of_a_real_server(tmp_path, page):
    def classify(text):
        length = tf.cast(tf.strings.length(text, unit="UTF8_CHAR"), tf.float32)
        weights = tf.stack([length, tf.fill(tf.shape(length), 3.0)], axis=1)
        probabilities = weights / tf.reduce_sum(weights, axis=1, keepdims=True)
        names = tf.constant(["long", "short <b>"])
        labels = tf.tile(names[None], [tf.size(text), 1])
        label = tf.gather(names, tf.argmax(probabilities, axis=1))
        return {"label": label, "labels": labels, "probabilities": probabilities}

    texts = spec("text", tf.string, None)
    save(tmp_path / "films" / "7", {"serving_default": (classify, texts)})
    with running_server(tmp_path / "films") as url:
        page.open(f"{url}/")
        page.wait_for("films", "version 7", "Enter sends")
        type_text(page, "nine")
        press_enter(page, shift=True)
        page._call("Input.insertText", text="abcd")
        press_enter(page)
        page.wait_for("long", "75.0 %", "short <b>", "25.0 %", "Request and response")
        assert page.run("document.querySelector('.bars .chosen').textContent") == "long75.0 %"
        submit(page, "é")
        page.wait_for("short <b> 75.0 % long 25.0 %")
        submit(page, " ")
        page.wait_for("Text is empty; enter a value.")


@IN_BROWSER
@pytest.mark.parametrize(
    ("text", "spans"),
    [
        (
            "🎉👩‍👩‍👧 Angela met 𝒪𝓉𝓉𝑜\nin Bern.",
            [("Angela", "PER"), ("𝒪𝓉𝓉𝑜", "PER"), ("Bern", "LOC")],
        ),
        ("זרה אנגלה בברן אתמול", [("אנגלה", "PER"), ("ברן", "LOC")]),
        (f"Ann {UNSAFE} in <b>Bern</b>", [("Ann", "PER"), ("<script>", "<i>x"), ("Bern", "LOC")]),
        ("nobody", []),
    ],
)
def test_entities(text, spans, page):
    prediction = {
        "entities": [span for span, _ in spans],
        "labels": [label for _, label in spans],
        "starts": [text.index(span) for span, _ in spans],
        "ends": [text.index(span) + len(span) for span, _ in spans],
        "scores": [0.875 for _ in spans],
    }
    with scripted_server(served(TEXT, prediction, lambda _: row(prediction))) as server:
        page.open(f"{server.url}/")
        page.wait_for("version 1")
        submit(page, text)
        count = f"{len(spans) or 'No'} spans"
        page.wait_for(f"{count} found", *["Probability", "87.5 %"][: 2 * len(spans)])
        assert marks(page) == [span for span, _ in spans]
        shown = page.run(
            "(text => { text.querySelectorAll('small').forEach(each => each.remove());"
            " return text.textContent; })(document.querySelector('.text').cloneNode(true))"
        )
        assert shown == text
        assert page.run("document.title") == "m"
        assert page.run("document.querySelectorAll('img, .text script, .text b').length") == 0


@IN_BROWSER
def test_question_answering(page):
    passage = "In 1905 💡 Einstein wrote four papers."

    def predict(instance):
        answer = "Einstein" if instance["question"] == "Who?" else ""
        start = passage.index(answer)
        span = {"answer": answer, "start": start, "end": start + len(answer)}
        return row({**span, "score": 7.25, "no_answer_score": -1.5})

    inputs = {"context": ("DT_STRING", 1), "question": ("DT_STRING", 1)}
    outputs = ("answer", "start", "end", "score", "no_answer_score")
    with scripted_server(served(inputs, outputs, predict)) as server:
        page.open(f"{server.url}/")
        text = page.wait_for("Question", "Passage")
        assert text.index("Question") < text.index("Passage")
        type_text(page, passage, field="context")
        for question, shown, answers in (
            ("Who?", ("no_answer_score", "7.25"), ["Einstein"]),
            ("Why?", ("The passage contains no answer.",), []),
        ):
            submit(page, question, field="question")
            page.wait_for(*shown)
            assert marks(page) == answers


@IN_BROWSER
def test_pairs_versions_numbers_and_errors(page):
    bare = (200, {"Content-Type": "application/json"}, b'{"predictions": [NaN]}')
    replies = [row(3.25), json_reply({"error": f"no {UNSAFE}"}, status=400), bare, None]
    inputs = {**TEXT, "text_pair": ("DT_STRING", 1)}
    reply = served(inputs, ["score"], lambda _: replies.pop(0), versions=("9", "10"))
    with scripted_server(reply) as server:
        page.open(f"{server.url}/")
        page.wait_for("Second text", "version 10 9")
        type_text(page, "A plane.")
        submit(page, "An air plane.", field="text_pair")
        page.wait_for("score", "3.25")
        _, path, body = server.requests[-1]
        assert path == "/v1/models/m/versions/10:predict"
        pair = {"text": "A plane.", "text_pair": "An air plane."}
        assert json.loads(body) == {"instances": [pair]}
        press_enter(page)
        page.wait_for("The server returned 400: no <script>")
        page.run("const s = document.getElementById('versions'); s.value = '9'; "
                 "s.dispatchEvent(new Event('change'))")  # fmt: skip
        while page.run("document.getElementById('result').children.length"):
            time.sleep(0.05)
        press_enter(page)
        page.wait_for("score NaN")
        assert server.requests[-1][1] == "/v1/models/m/versions/9:predict"
        press_enter(page)
        page.wait_for("The server does not respond. Is it still running?")
        assert page.run("document.title") == "m"


@IN_BROWSER
def test_the_embeddings_of_two_texts_are_compared(tmp_path, page):
    embedder(tmp_path / "vectors" / "1")
    with running_server(tmp_path / "vectors") as url:
        page.open(f"{url}/")
        page.wait_for("Second text")
        type_text(page, "abcd <i>")
        submit(page, "aad", field="second")
        page.wait_for("Cosine similarity", "0.9037", "abcd <i>", "0.5, 0.5, 0.5, 0.5")
        assert page.run("document.querySelector('.fill').style.width.slice(0, 4)") == "90.3"

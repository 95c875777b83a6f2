"""The HTML page at /: its response, and its rendering in a headless Chromium."""

import json
import re
import time

import pytest

from bert_keras.serving.app import page_response
from bert_keras.serving.server import running_server
from tests.browser import browser_page
from tests.serving.scripted import json_reply, scripted_server
from tests.serving.text_models import embedder

BROWSER = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
IN_BROWSER = pytest.mark.slow
UNSAFE = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
TEXT = [{"name": "", "size": "-1"}]


def test_a_browser_gets_the_page_and_other_clients_get_the_response_of_tf_serving(send, server_of):
    url = server_of("half_plus_two")
    response = send(url, "GET", "/", headers=BROWSER)
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b'content="half_plus_two"' in response.body
    assert send(url, "GET", "/").status == 404
    assert send(url, "GET", "/x", headers=BROWSER).status == 404
    assert send(url, "POST", "/", headers=BROWSER).status == 404


def test_the_page_needs_no_other_files_and_may_run_only_its_own_script():
    response = page_response('a"><script>alert(1)</script>')
    text = response.body.decode()
    assert text.count("<script>") == 1 and "{{" not in text
    assert 'content="a&#34;&gt;&lt;script&gt;' in text
    assert not re.search(r"https?://|src=|@import|url\(", text)
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert re.search(r"script-src 'sha256-[\w+/]{43}=';", policy)


def metadata(inputs, outputs):
    def tensors(named):
        return {
            name: {"dtype": dtype, "tensor_shape": {"dim": TEXT * rank, "unknown_rank": False}}
            for name, (dtype, rank) in named.items()
        }

    signature = {"inputs": tensors(inputs), "outputs": tensors(outputs)}
    return {"metadata": {"signature_def": {"signature_def": {"serving_default": signature}}}}


def served(inputs, outputs, predict, *, name="m", versions=("1",)):
    """A reply function of a model that responds to one instance with `predict(instance)`."""
    states = [{"version": each, "state": "AVAILABLE", "status": {}} for each in versions]

    def reply(method, path, body):
        if path == "/":
            page = page_response(name)
            return 200, dict(page.headers), page.body
        if method == "POST":
            return predict(json.loads(body)["instances"][0])
        if path.endswith("/metadata"):
            return json_reply(metadata(inputs, outputs))
        return json_reply({"model_version_status": states})

    return reply


def row(document):
    return json_reply({"predictions": [document]})


def of_text(*outputs):
    return {"text": ("DT_STRING", 1)}, {name: ("DT_STRING", 1) for name in outputs}


def type_text(page, text, *, field="text"):
    """Types into a field with input events, as a user does."""
    page.run(f"document.getElementsByName({json.dumps(field)})[0].select()")
    page._call("Input.insertText", text=text)


def press_enter(page, *, shift=False):
    key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
    for kind in ("keyDown", "keyUp"):
        page._call("Input.dispatchKeyEvent", type=kind, modifiers=8 if shift else 0, **key)


def submit(page, text):
    type_text(page, text)
    press_enter(page)


def wait_until(page, condition):
    end = time.monotonic() + 20
    while not page.run(condition):
        assert time.monotonic() < end, f"never came: {condition}"
        time.sleep(0.05)


def marks(page):
    return page.run("[...document.querySelectorAll('mark')].map(mark => mark.firstChild.data)")


@IN_BROWSER
def test_a_classifier_of_a_real_server(tmp_path):
    import tensorflow as tf

    class Classifier(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def __call__(self, text):
            length = tf.cast(tf.strings.length(text, unit="UTF8_CHAR"), tf.float32)
            weights = tf.stack([length, tf.fill(tf.shape(length), 3.0)], axis=1)
            probabilities = weights / tf.reduce_sum(weights, axis=1, keepdims=True)
            names = tf.constant(["long", "short <b>"])
            return {
                "label": tf.gather(names, tf.argmax(probabilities, axis=1)),
                "labels": tf.tile(names[None], [tf.size(text), 1]),
                "probabilities": probabilities,
            }

    model = Classifier()
    tf.saved_model.save(model, tmp_path / "films" / "7", {"serving_default": model.__call__})
    with running_server(tmp_path / "films") as url, browser_page(width=900, height=700) as page:
        page.open(f"{url}/")
        page.wait_for("films", "version 7", "Enter sends")
        type_text(page, "nine")
        press_enter(page, shift=True)
        page._call("Input.insertText", text="abcd")
        press_enter(page)
        page.wait_for("long", "75.0 %", "short <b>", "25.0 %", "Request and response")
        assert page.run("document.querySelector('.bars .chosen').textContent") == "long75.0 %"
        assert page.run("document.querySelector('.fill').getBoundingClientRect().width") > 100
        page.picture(tmp_path / "bars.png")
        submit(page, "é")
        page.wait_for("short <b> 75.0 % long 25.0 %")
        submit(page, " ")
        page.wait_for("Text is empty; enter a value.")


@IN_BROWSER
@pytest.mark.parametrize(
    ("text", "spans"),
    [
        (
            "🎉👩‍👩‍👧 Angela met 𝒪𝓉𝓉𝑜 in Bern.",
            [("Angela", "PER"), ("𝒪𝓉𝓉𝑜", "PER"), ("Bern", "LOC")],
        ),
        ("זרה אנגלה בברן אתמול", [("אנגלה", "PER"), ("ברן", "LOC")]),
        (f"Ann {UNSAFE} in <b>Bern</b>", [("Ann", "PER"), ("<script>", "<i>x"), ("Bern", "LOC")]),
        ("two\nlines: Ann", [("Ann", "PER")]),
        ("nobody", []),
    ],
)
def test_entities(text, spans, tmp_path):
    def predict(instance):
        assert instance == {"text": text}
        return row(
            {
                "entities": [span for span, _ in spans],
                "labels": [label for _, label in spans],
                "starts": [text.index(span) for span, _ in spans],
                "ends": [text.index(span) + len(span) for span, _ in spans],
                "scores": [0.875 for _ in spans],
            }
        )

    reply = served(*of_text("entities", "labels", "starts", "ends", "scores"), predict)
    with scripted_server(reply) as server, browser_page(width=900, height=700) as page:
        page.open(f"{server.url}/")
        page.wait_for("version 1")
        submit(page, text)
        count = {0: "No spans", 1: "1 span"}.get(len(spans), f"{len(spans)} spans")
        page.wait_for(f"{count} found", *["Probability", "87.5 %"][: 2 * len(spans)])
        page.picture(tmp_path / "entities.png")
        assert marks(page) == [span for span, _ in spans]
        shown = page.run(
            "(text => { text.querySelectorAll('small').forEach(each => each.remove());"
            " return text.textContent; })(document.querySelector('.text').cloneNode(true))"
        )
        assert shown == text
        assert page.run("document.title") == "m"
        assert page.run("document.querySelectorAll('img, .text script, .text b').length") == 0


@IN_BROWSER
def test_question_answering(tmp_path):
    passage = "In 1905 💡 Einstein wrote four papers."
    outputs = ("answer", "start", "end", "score", "no_answer_score")
    inputs = {"context": ("DT_STRING", 1), "question": ("DT_STRING", 1)}

    def predict(instance):
        assert instance["context"] == passage
        answer = "Einstein" if instance["question"] == "Who?" else ""
        start = passage.index(answer)
        end = start + len(answer)
        return row(
            {"answer": answer, "start": start, "end": end, "score": 7.25, "no_answer_score": -1.5}
        )

    reply = served(inputs, dict.fromkeys(outputs, ("DT_STRING", 1)), predict)
    with scripted_server(reply) as server, browser_page(width=900, height=800) as page:
        page.open(f"{server.url}/")
        text = page.wait_for("Question", "Passage")
        assert text.index("Question") < text.index("Passage")
        type_text(page, passage, field="context")
        type_text(page, "Who?", field="question")
        press_enter(page)
        page.wait_for("no_answer_score", "7.25")
        page.picture(tmp_path / "answer.png")
        assert marks(page) == ["Einstein"]
        type_text(page, "Why?", field="question")
        press_enter(page)
        page.wait_for("The passage contains no answer.")
        assert marks(page) == []


@IN_BROWSER
def test_pairs_versions_numbers_and_errors(tmp_path):
    replies = [
        row(3.25),
        json_reply({"error": f"no {UNSAFE}"}, status=400),
        (200, {"Content-Type": "application/json"}, b'{"predictions": [NaN]}'),
        None,
    ]
    inputs = {"text": ("DT_STRING", 1), "text_pair": ("DT_STRING", 1)}
    reply = served(
        inputs,
        {"score": ("DT_FLOAT", 1)},
        lambda _: replies.pop(0) if replies else None,
        versions=("9", "10"),
    )
    with scripted_server(reply) as server, browser_page(width=900, height=700) as page:
        page.open(f"{server.url}/")
        page.wait_for("Second text", "version 10 9")
        type_text(page, "A plane.")
        type_text(page, "An air plane.", field="text_pair")
        press_enter(page)
        page.wait_for("score", "3.25")
        page.picture(tmp_path / "score.png")
        _, path, body = server.requests[-1]
        assert path == "/v1/models/m/versions/10:predict"
        pair = {"text": "A plane.", "text_pair": "An air plane."}
        assert json.loads(body) == {"instances": [pair]}
        press_enter(page)
        page.wait_for("The server returned 400: no <script>")
        page.picture(tmp_path / "error.png")
        page.run("const s = document.getElementById('versions'); s.value = '9'; "
                 "s.dispatchEvent(new Event('change'))")  # fmt: skip
        wait_until(page, "document.getElementById('result').children.length === 0")
        press_enter(page)
        page.wait_for("score NaN")
        assert server.requests[-1][1] == "/v1/models/m/versions/9:predict"
        press_enter(page)
        page.wait_for("The server does not respond. Is it still running?")
        assert page.run("document.title") == "m"


@IN_BROWSER
def test_the_embeddings_of_two_texts_are_compared(tmp_path):
    embedder(tmp_path / "vectors" / "1")
    with running_server(tmp_path / "vectors") as url, browser_page(width=900, height=700) as page:
        page.open(f"{url}/")
        page.wait_for("Second text")
        type_text(page, "abcd <i>")
        type_text(page, "aad", field="second")
        press_enter(page)
        page.wait_for("Cosine similarity", "0.9037", "abcd <i>", "0.5, 0.5, 0.5, 0.5")
        page.picture(tmp_path / "similarity.png")
        assert page.run("document.querySelector('.fill').style.width.slice(0, 4)") == "90.3"
        press_enter(page)
        page.wait_for('{"instances":[{"text":"abcd <i>"},{"text":"aad"}]}')


@IN_BROWSER
def test_any_other_model(tmp_path):
    inputs = {"x": ("DT_FLOAT", 2), "choices": ("DT_STRING", 2)}
    vector = [0.5] * 768
    document = {"vector": vector, "ids": [[1, 2], [3, 4]], "flag": True, "name": "<i>n"}
    outputs = dict.fromkeys(document, ("DT_FLOAT", 2))
    with (
        scripted_server(served(inputs, outputs, lambda _: row(document))) as server,
        browser_page(width=900, height=700) as page,
    ):
        page.open(f"{server.url}/")
        page.wait_for("Choices, one on each line", "x, as JSON")
        type_text(page, "one\ntwo\n", field="choices")
        type_text(page, "[1, 2", field="x")
        press_enter(page)
        page.wait_for("x is not valid JSON; expected a number or a list such as [1, 2, 3].")
        type_text(page, "[1, 2]", field="x")
        press_enter(page)
        page.wait_for("768 in all", "[1, 2] [3, 4]", "true", "<i>n")
        page.picture(tmp_path / "table.png")
        assert json.loads(server.requests[-1][2]) == {
            "instances": [{"x": [1, 2], "choices": ["one", "two"]}]
        }

"""Small SavedModels like those of the recorded responses of TF Serving, and servers for them."""

import contextlib
import http.client
import json
import os
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from bert_keras.exporting.version_folder import METADATA
from bert_keras.serving.limits import Limits
from bert_keras.serving.server import running_server

TF_SERVING_URL = "TF_SERVING_URL"  # of a TF Serving's REST API, such as http://127.0.0.1:8501


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self):
        return json.loads(self.body.decode(errors="replace"))


def send(url, method, path, body=None, headers=None):
    """Sends one request over a new connection."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=3600)
    with contextlib.closing(connection):
        connection.request(method, path, body=body, headers=headers or {})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())


def half_plus(offset, folder):
    """The test model of TF Serving in TF1 code: y = x / 2 + offset, and y3 from x2."""
    from tensorflow.compat import v1

    with v1.Session(graph=v1.Graph()) as session:
        tf_example = v1.placeholder(v1.string, name="tf_example")
        features = {"x": v1.FixedLenFeature([1], v1.float32)}
        x = v1.ensure_shape(v1.parse_example(tf_example, features)["x"], [None, 1], name="x")
        x2 = v1.placeholder(v1.float32, [None, 1], name="x2")
        y = v1.add(x * 0.5, offset, name="y")
        y2 = v1.add(x * 0.5, offset + 1, name="y2")
        y3 = v1.add(x2 * 0.5, offset + 1, name="y3")
        builder = v1.saved_model.Builder(str(folder))
        signatures = {
            "serving_default": ("predict", {"x": x}, {"y": y}),
            "regress_x_to_y": ("regress", {"inputs": tf_example}, {"outputs": y}),
            "regress_x_to_y2": ("regress", {"inputs": tf_example}, {"outputs": y2}),
            "regress_x2_to_y3": ("regress", {"inputs": x2}, {"outputs": y3}),
            "classify_x_to_y": ("classify", {"inputs": tf_example}, {"scores": y}),
            "classify_x2_to_y3": ("classify", {"inputs": x2}, {"scores": y3}),
        }
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            signature_def_map={name: _signature(*parts) for name, parts in signatures.items()},
        )
        builder.save()


def _signature(verb, inputs, outputs):
    from tensorflow.compat import v1

    return v1.saved_model.build_signature_def(
        {name: v1.saved_model.build_tensor_info(tensor) for name, tensor in inputs.items()},
        {name: v1.saved_model.build_tensor_info(tensor) for name, tensor in outputs.items()},
        f"tensorflow/serving/{verb}",
    )


def tiny(folder):
    """Maps three floats to two equal ones, their sum plus 1; signatures have Keras' names."""
    import tensorflow as tf

    class Tiny(tf.Module):
        def __init__(self):
            super().__init__()
            self.weights = tf.Variable(tf.ones([3, 2]))

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
        def __call__(self, x):
            return {"output_0": tf.matmul(x, self.weights) + 1.0}

    module = Tiny()
    signature = module.__call__.get_concrete_function()
    tf.saved_model.save(
        module, folder, signatures={"serve": signature, "serving_default": signature}
    )


def texty(folder):
    """Several inputs and outputs: text, bytes, scalars, NaN and infinity."""
    import tensorflow as tf
    import tensorflow_text

    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "hello", "world", "##s", "!"]

    def spec(name, dtype, *shape):
        return tf.TensorSpec(shape, dtype, name)

    class Texty(tf.Module):
        def __init__(self):
            super().__init__()
            ids = tf.lookup.KeyValueTensorInitializer(tokens, tf.range(8, dtype=tf.int64))
            self.table = tf.lookup.StaticVocabularyTable(ids, num_oov_buckets=1)
            self.tokenizer = tensorflow_text.BertTokenizer(
                self.table, lower_case=True, token_out_type=tf.int32
            )

        @tf.function(input_signature=[spec("sentences", tf.string, None)])
        def text(self, sentences):
            ids = self.tokenizer.tokenize(sentences).merge_dims(-2, -1)
            return {
                "input_ids": ids.to_tensor(shape=[None, 8]),
                "len": tf.strings.length(sentences),
            }

        @tf.function(input_signature=[spec("a", tf.float32, None, 2), spec("b", tf.int64, None)])
        def multi(self, a, b):
            total = a * [1.0, 2.0] + tf.cast(b, tf.float32)[:, None]
            return {"sum": total, "b2": b * 2, "flag": b > 0}

        @tf.function(input_signature=[spec("a", tf.float32, None, 2)])
        def agg(self, a):
            return {"mean": tf.reduce_mean(a), "row": tf.reduce_sum(a, axis=1)}

        @tf.function(input_signature=[spec("s", tf.float32)])
        def scalar(self, s):
            return {"y": s * 2.0}

        @tf.function(input_signature=[spec("v", tf.float32, None)])
        def special(self, v):
            return {
                "log": tf.math.log(v),
                "third": v / 3.0,
                "big": v * 1e20,
                "d": tf.cast(v, tf.float64) / 3.0,
            }

        @tf.function(input_signature=[spec("image_bytes", tf.string, None)])
        def bytes(self, image_bytes):
            return {
                "out_bytes": tf.strings.substr(image_bytes, 0, 4),
                "out": tf.strings.upper(image_bytes),
            }

    module = Texty()
    names = ("multi", "agg", "scalar", "special", "bytes")
    signatures = {name: getattr(module, name) for name in names}
    tf.saved_model.save(module, folder, signatures={"serving_default": module.text, **signatures})


def odd(folder):
    """Slow and failing signatures, and outputs whose first dimension is not the batch."""
    import tensorflow as tf

    def signature(function, dtype, *shape):
        return tf.function(input_signature=[tf.TensorSpec(shape, dtype)])(function)

    def count(n):
        largest = tf.reduce_max(n)
        return {"y": 0 * n + tf.while_loop(lambda i: i < largest, lambda i: [i + 1], [0])[0]}

    def strict(x):
        with tf.control_dependencies([tf.debugging.assert_non_negative(x, "negative")]):
            return {"y": tf.identity(x) * 2}

    def words(text):
        split = tf.strings.split(text)
        return {"words": split.to_tensor(), "length": tf.strings.length(text)}

    module = tf.Module()
    module.slow = signature(lambda n: count(n), tf.int32, None)
    module.strict = signature(lambda x: strict(x), tf.float32, None)
    module.centred = signature(lambda x: {"y": x - tf.reduce_mean(x)}, tf.float32, None)
    module.words = signature(lambda text: words(text), tf.string, None)
    names = ("slow", "strict", "centred", "words")
    tf.saved_model.save(module, folder, signatures={name: getattr(module, name) for name in names})


def write_models(folder):
    """Writes the model folders; half_plus_two has two versions and other entries."""
    half_plus(2.0, folder / "half_plus_two" / "00000123")
    half_plus(2.0, folder / "half_plus_two" / "124")
    (folder / "half_plus_two" / "notes").mkdir()
    (folder / "half_plus_two" / "200").write_text("a file, no version")
    half_plus(3.0, folder / "half_plus_three" / "123")
    tiny(folder / "keras_tiny" / "1")
    texty(folder / "texty" / "1")
    (folder / "texty" / "1" / METADATA).parent.mkdir()
    (folder / "texty" / "1" / METADATA).write_text("{}")  # as if bert-keras had exported it
    odd(folder / "odd" / "1")


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved_models")
    write_models(folder)
    return folder


@pytest.fixture(scope="session")
def server_of(models):
    """The URL of a server for a model folder, started when first asked for; no stall of a busy
    machine reaches the time that its requests have."""
    urls, limits = {}, Limits(seconds=3600)
    with contextlib.ExitStack() as stack:

        def url_of(name):
            if name not in urls:
                urls[name] = stack.enter_context(running_server(models / name, limits=limits))
            return urls[name]

        yield url_of


def pytest_generate_tests(metafunc):
    """Runs tests with `any_server_of` on the local server, and on TF_SERVING_URL if it is set."""
    if "any_server_of" in metafunc.fixturenames:
        urls = {"local": None}
        if TF_SERVING_URL in os.environ:
            urls["tf_serving"] = os.environ[TF_SERVING_URL].rstrip("/")
        metafunc.parametrize("any_server_of", urls.values(), ids=urls, indirect=True)


@pytest.fixture
def any_server_of(request, server_of):
    """Same as `server_of`, for the server of this test."""
    url = request.param
    return server_of if url is None else lambda name: tf_serving_of(url, name)


def tf_serving_of(url, name):
    """Returns `url` if it serves the model; skips the test otherwise."""
    if send(url, "GET", f"/v1/models/{name}").status == 404:
        pytest.skip(
            f"{url} serves no {name}: `python tests/serving/conftest.py FOLDER` writes the models "
            "and the models.config to start it with"
        )
    return url


@pytest.fixture(scope="session")
def both_versions(models):
    """The URL of a server for both versions of half_plus_two."""
    with running_server(models / "half_plus_two", versions=[123, 124]) as url:
        yield url


@pytest.fixture(name="send", scope="session")
def send_fixture():
    return send


if __name__ == "__main__":  # for a TF Serving to be tested: see test_recorded_responses.py
    import sys
    from pathlib import Path

    from bert_keras.exporting.version_folder import is_version

    root = Path(sys.argv[1]).resolve()
    write_models(root)
    configs = []
    for child in sorted(root.iterdir()):
        versions = " ".join(
            f"versions: {int(path.name)}" for path in child.iterdir() if is_version(path.name)
        )
        configs.append(
            f'config {{ name: "{child.name}" base_path: "/models/{child.name}" '
            f'model_platform: "tensorflow" '
            f"model_version_policy {{ specific {{ {versions} }} }} }}"
        )
    text = "\n".join(["model_config_list {", *configs, "}", ""])
    (root / "models.config").write_text(text, encoding="utf-8")
    print(
        f"docker run -p 8501:8501 -v {root}:/models tensorflow/serving:2.20.0 "
        "--model_config_file=/models/models.config\n"
        "TF_SERVING_URL=http://127.0.0.1:8501 pytest tests/serving"
    )

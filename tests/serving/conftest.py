"""Small SavedModels like those behind the recorded answers of TF Serving, and servers for them."""

import contextlib
import http.client
import json
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from bert_keras.serving.server import running_server


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self):
        return json.loads(self.body.decode(errors="replace"))


def send(url, method, path, body=None, headers=None):
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path, body=body, headers=headers or {})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())


def half_plus(offset, folder):
    """TF Serving's own test model, written the TF1 way: y = x / 2 + offset, y3 of x2."""
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
    """Three floats to two: their sum plus one, twice; signatures named as Keras names them."""
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
    """Several inputs, several outputs, text, bytes, scalars and numbers that are not finite."""
    import tensorflow as tf
    import tensorflow_text

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "hello", "world", "##s", "!"]

    def spec(name, dtype, *shape):
        return tf.TensorSpec(shape, dtype, name)

    class Texty(tf.Module):
        def __init__(self):
            super().__init__()
            ids = tf.lookup.KeyValueTensorInitializer(pieces, tf.range(8, dtype=tf.int64))
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


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A folder of model folders; half_plus_two has two versions and things that are none."""
    folder = tmp_path_factory.mktemp("saved_models")
    half_plus(2.0, folder / "half_plus_two" / "00000123")
    half_plus(2.0, folder / "half_plus_two" / "124")
    (folder / "half_plus_two" / "notes").mkdir()
    (folder / "half_plus_two" / "200").write_text("a file, no version")
    half_plus(3.0, folder / "half_plus_three" / "123")
    tiny(folder / "keras_tiny" / "1")
    texty(folder / "texty" / "1")
    return folder


@pytest.fixture(scope="session")
def server_of(models):
    """The URL of a server for a model folder, started when first asked for."""
    urls = {}
    with contextlib.ExitStack() as stack:

        def url_of(name):
            if name not in urls:
                urls[name] = stack.enter_context(running_server(models / name))
            return urls[name]

        yield url_of


@pytest.fixture(name="send", scope="session")
def send_fixture():
    return send

"""Small SavedModels like those of the recorded responses of TF Serving, and servers for them."""

import contextlib
import os
import subprocess
import sys
from functools import cache

import httpx
import pytest
import tensorflow as tf
from tensorflow.python.ops import gen_data_flow_ops

from bert_keras.serving.limits import Limits
from bert_keras.serving.server import running_server
from bert_keras.serving.version_folder import METADATA


def spec(name, dtype, *shape):
    return tf.TensorSpec(shape, dtype, name)


def save(folder, signatures, *tracked):
    """Writes a SavedModel of (function, TensorSpec, ...) by signature name."""
    module = tf.Module()
    module.tracked, module.functions = tracked, {}
    for name, (function, *specs) in signatures.items():
        module.functions[name] = tf.function(function, input_signature=specs)
    tf.saved_model.save(module, folder, signatures=module.functions)


def half_plus(offset, folder):
    """The test model of TF Serving: y = x / 2 + offset."""
    x = spec("x", tf.float32, None, 1)
    save(folder, {"serving_default": (lambda x: {"y": x / 2.0 + offset}, x)})


def tiny(folder):
    """Maps three floats to two equal ones, their sum plus 1; signatures have Keras' names."""
    weights = tf.Variable(tf.ones([3, 2]))
    one = (lambda x: {"output_0": tf.matmul(x, weights) + 1.0}, spec("x", tf.float32, None, 3))
    save(folder, {"serve": one, "serving_default": one}, weights)


def texty(folder):
    """Several inputs and outputs: text, bytes, scalars, NaN and infinity."""
    import tensorflow_text

    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "hello", "world", "##s", "!"]
    ids = tf.lookup.KeyValueTensorInitializer(tokens, tf.range(8, dtype=tf.int64))
    table = tf.lookup.StaticVocabularyTable(ids, num_oov_buckets=1)
    tokenizer = tensorflow_text.BertTokenizer(table, lower_case=True, token_out_type=tf.int32)

    def text(sentences):
        ids = tokenizer.tokenize(sentences).merge_dims(-2, -1).to_tensor(shape=[None, 8])
        return {"input_ids": ids, "len": tf.strings.length(sentences)}

    def multi(a, b):
        total = a * [1.0, 2.0] + tf.cast(b, tf.float32)[:, None]
        return {"sum": total, "b2": b * 2, "flag": b > 0}

    def special(v):
        third = tf.cast(v, tf.float64) / 3.0
        return {"log": tf.math.log(v), "third": v / 3.0, "big": v * 1e20, "d": third}

    def of_bytes(image_bytes):
        start = tf.strings.substr(image_bytes, 0, 4)
        return {"out_bytes": start, "out": tf.strings.upper(image_bytes)}

    a, b = spec("a", tf.float32, None, 2), spec("b", tf.int64, None)
    signatures = {
        "serving_default": (text, spec("sentences", tf.string, None)),
        "multi": (multi, a, b),
        "agg": (lambda a: {"mean": tf.reduce_mean(a), "row": tf.reduce_sum(a, axis=1)}, a),
        "scalar": (lambda s: {"y": s * 2.0}, spec("s", tf.float32)),
        "special": (special, spec("v", tf.float32, None)),
        "bytes": (of_bytes, spec("image_bytes", tf.string, None)),
    }
    save(folder, signatures, table, tokenizer)


def odd(folder):
    """Slow, stuck and failing signatures, and outputs whose first dimension is not the batch."""

    def slow(n):
        largest = tf.reduce_max(n)
        return {"y": 0 * n + tf.while_loop(lambda i: i < largest, lambda i: [i + 1], [0])[0]}

    def stuck(x):  # waits for a number without computing
        never = gen_data_flow_ops.fifo_queue_v2([tf.float32])
        return {"y": x + gen_data_flow_ops.queue_dequeue_v2(never, [tf.float32])[0]}

    def strict(x):
        with tf.control_dependencies([tf.debugging.assert_non_negative(x, "negative")]):
            return {"y": tf.identity(x) * 2}

    def words(text):
        return {"words": tf.strings.split(text).to_tensor(), "length": tf.strings.length(text)}

    x, texts = spec("x", tf.float32, None), spec("text", tf.string, None)
    signatures = {"slow": (slow, spec("n", tf.int32, None)), "words": (words, texts)}
    signatures |= {"stuck": (stuck, x), "strict": (strict, x)}
    signatures["centred"] = (lambda x: {"y": x - tf.reduce_mean(x)}, x)
    signatures["number"] = (lambda text: {"y": tf.strings.to_number(text)}, texts)
    save(folder, signatures)


def embedder(folder, *, has_counts=True):
    """An embedding of four numbers for each text, counts of letters, and the number of words."""

    def embed(text):
        others = [tf.strings.regex_replace(text, f"[^{letter}]", "") for letter in "abcd"]
        vectors = 1 + tf.cast(tf.stack([*map(tf.strings.length, others)], axis=1), tf.float32)
        vectors /= tf.where(text == "zero", 0.0, 1.0)[:, None]
        return {"embedding": tf.math.l2_normalize(vectors, axis=1), "pooled": vectors}

    def count(text):
        return {"num_tokens": tf.cast(tf.strings.split(text).row_lengths(), tf.int32) + 2}

    texts = spec("text", tf.string, None)
    counts = {"num_tokens": (count, texts)} if has_counts else {}
    save(folder, {"serving_default": (embed, texts), **counts})


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """The model folders; half_plus_two has two versions and other entries."""
    folder = tmp_path_factory.mktemp("saved_models")
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
    embedder(folder / "letters" / "1")
    embedder(folder / "uncounted" / "1", has_counts=False)
    return folder


@pytest.fixture(scope="session")
def server_of(models):
    """The URL of a server for a model folder, started when first asked for. Its requests have an
    hour, so that they succeed on a busy machine."""
    limits = Limits(seconds=3600)
    with contextlib.ExitStack() as stack:
        start = stack.enter_context
        yield cache(lambda name: start(running_server(models / name, limits=limits)))


@contextlib.contextmanager
def served_by_command(*words):
    """Runs `bert-keras serve` in a new process and yields the process and the URL."""
    program = [sys.executable, "-m", "bert_keras.cli", "serve", *map(str, words), "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    with subprocess.Popen(program, env=environment, **pipes) as process:
        try:
            line = process.stdout.readline()
            yield process, "/".join(line.split()[1].split("/")[:3])
        finally:
            process.kill()


@pytest.fixture(scope="session")
def both_versions(models):
    """The URL of a server for both versions of half_plus_two."""
    with running_server(models / "half_plus_two", versions=[123, 124]) as url:
        yield url


@pytest.fixture(scope="session")
def send():
    """A function that sends a request and returns the response."""
    with httpx.Client(timeout=3600) as client:
        yield lambda url, method, path, body=None, headers=None: client.request(
            method, url + path, content=body, headers=headers
        )

"""Creates requests for the signatures of a model: samples that verify it, and warm-up requests.

TF Serving runs the warm-up requests before a version becomes available. If one of them fails,
TF Serving does not load the version.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog, PredictLog

from bert_keras.data.schema import PREDICTION_FEATURES, SEQUENCE_FEATURES
from bert_keras.exporting.servable import TEXT_SIGNATURE, Signature, input_specs
from bert_keras.exporting.version_folder import WARMUP
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer

# Must not exceed the server's maximum batch size, or the server does not load the model.
BATCH_SIZES = (1, 2)
SHORT_LENGTH = 8  # tokens
_EXAMPLES = ("examples", "inputs")  # names of inputs that take serialized tf.Examples
_TEXT = """
The film opens on a quiet street in the rain. Nobody speaks for a while, and then everything
happens at once! Who would have guessed that the old house, sold in 1987 for next to nothing, held
the letters all along? She read them twice, folded them and put them back where they had been. "It
was never about the money," he said; "it was about the two of us." I left the theatre wishing that
it had been an hour longer, which is not what I usually wish for.
"""


def sample_texts(*, max_length: int) -> list[str]:
    """Returns a plain text, an empty one, one of many kinds of characters, and a long one.

    The long text has more windows of `max_length` tokens than a graph evaluates at once.
    """
    mixed = "Café [MASK] İSTANBUL ß ﬁ ΟΔΟΣ 東京 한국 a\u200bb Cafe\u0301 \x00\ufffd 😀\tend\n"
    long = (f"Anna {n} met Bob {n * n} in Lyon." for n in range(max_length // 2 + 1))
    return ["A short sentence by Anna Lee.", "", mixed, " ".join(long)]


def requests_of(
    signatures: Mapping[str, Signature],
    texts: Sequence[str],
    *,
    tokenizer: TextTokenizer,
    max_length: int,
) -> dict[str, dict]:
    """Creates a request of some texts for each signature, in the form of exporting/verify.py.

    A signature of token ids gets the ids of the tokenizer outside the graph.
    """
    ids = tokenizer.ids_batch(texts)
    pairs = [ids, [*ids[1:], *ids[:1]]][: len(input_specs(signatures[TEXT_SIGNATURE]))]
    tensors = pack(*pairs, vocabulary=tokenizer.vocabulary, max_length=max_length)
    tensors[PREDICTION_FEATURES[0]] = np.ones([len(texts), 1], np.int32)  # masked_lm_positions

    def column(name: str, number: int, rank: int) -> Any:
        if name in tensors:  # two rows are the choices of an instance
            rows = tensors[name]
            return rows if rank == 2 else np.stack([rows, np.roll(rows, 1, axis=0)], axis=1)
        turned = [*texts[number:], *texts[:number]]
        choices = zip(turned, texts, strict=True)
        return turned if rank == 1 else [[*each] for each in choices]

    def columns(signature: Signature) -> dict:
        specs = input_specs(signature).items()
        return {n: column(n, i, spec.shape.rank) for i, (n, spec) in enumerate(specs)}

    examples = serialized(columns(signatures[TEXT_SIGNATURE]))
    return {
        name: {
            "signature": name,
            "inputs": {n: examples if n in _EXAMPLES else c for n, c in columns(each).items()},
        }
        for name, each in signatures.items()
    }


def serialized(inputs: Mapping[str, Sequence]) -> list[bytes]:
    """Returns a serialized tf.Example for each row of columns of texts, or of lists of texts."""
    examples = []
    for row in zip(*inputs.values(), strict=True):
        example = tf.train.Example()
        for name, value in zip(inputs, row, strict=True):
            values = [value] if isinstance(value, str) else value
            example.features.feature[name].bytes_list.value.extend(each.encode() for each in values)
        examples.append(example.SerializeToString(deterministic=True))
    return examples


def warmup_requests_for(
    signatures: Mapping[str, Signature], *, tokenizer: TextTokenizer, max_length: int
) -> list[dict]:
    """Creates warm-up requests for every signature.

    Each signature gets a short text. A signature that takes token ids also gets a text of medium
    length. `serving_default` gets texts of three lengths up to `max_length` tokens, and a batch of
    two short texts. All signatures share the graph of the encoder. After these requests, the first
    request of another length is not slower than later ones.
    """
    lengths = (SHORT_LENGTH, max(max_length // 4, SHORT_LENGTH), max_length)
    short, *longer = sorted({min(length, max_length) for length in lengths})
    num_texts = len(input_specs(signatures[TEXT_SIGNATURE]))
    words = _TEXT.split()
    totals = np.cumsum([len(ids) for ids in tokenizer.ids_batch(words)])

    def requests(length: int, *, batch_size: int = 1) -> dict[str, dict]:
        num_repeats, num_others = divmod(length // num_texts, totals[-1])
        num_words = num_repeats * len(words) + np.searchsorted(totals, num_others, side="right")
        text = " ".join((words * (num_repeats + 1))[: max(num_words, 1)])
        texts = [text] * batch_size
        return requests_of(signatures, texts, tokenizer=tokenizer, max_length=length)

    medium = requests(longer[0] if longer else short)
    reads_ids = [n for n, each in signatures.items() if {*SEQUENCE_FEATURES} & {*input_specs(each)}]
    return [
        *requests(short).values(),
        *(medium[name] for name in reads_ids if longer),
        *(requests(short, batch_size=size)[TEXT_SIGNATURE] for size in BATCH_SIZES[1:]),
        *(requests(length)[TEXT_SIGNATURE] for length in longer),
    ]


def write_warmup(folder: str | os.PathLike, requests: Sequence[dict], *, name: str) -> None:
    """Adds warm-up requests to a SavedModel; `name` is that of the model on the server."""
    path = Path(folder) / WARMUP
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for request in requests:
            message = PredictRequest()
            message.model_spec.name = name
            message.model_spec.signature_name = request["signature"]
            for input_name, values in request["inputs"].items():
                message.inputs[input_name].CopyFrom(tf.make_tensor_proto(values))
            log = PredictionLog(predict_log=PredictLog(request=message))
            writer.write(log.SerializeToString(deterministic=True))

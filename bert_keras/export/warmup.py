"""Warm-up requests of a SavedModel.

TF Serving replays them before a version answers, and refuses a version of which one fails.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import accumulate, cycle, islice, takewhile
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog, PredictLog

from bert_keras.data.schema import PREDICTION_FEATURES, SEQUENCE_FEATURES
from bert_keras.errors import InputError
from bert_keras.export.servable import TEXT_SIGNATURE
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer

WARMUP = "assets.extra/tf_serving_warmup_requests"
MAX_REQUESTS = 1000  # tensorflow_serving/servables/tensorflow/saved_model_warmup_util.h
BATCH_SIZES = (1, 2)  # at most what a server takes as one batch, or it would not load the model
SHORT = 8  # pieces
_EXAMPLES = ("examples", "inputs")  # inputs that hold a serialized tf.Example
_POSITIONS = PREDICTION_FEATURES[0]
_TEXT = """
The film opens on a quiet street in the rain. Nobody speaks for a while, and then everything
happens at once! Who would have guessed that the old house, sold in 1987 for next to nothing, held
the letters all along? She read them twice, folded them and put them back where they had been. "It
was never about the money," he said; "it was about the two of us." I left the theatre wishing that
it had been an hour longer, which is not what I usually wish for.
"""


def warmup_requests_for(
    folder: str | os.PathLike, *, tokenizer: TextTokenizer, max_length: int
) -> list[dict]:
    """Returns requests to every signature of a SavedModel, as export/verify.py takes them.

    Each signature gets a short text, one that takes tokens a text of middle length too, and
    `serving_default` three lengths up to `max_length`, the short one also as a batch of two. All
    signatures share the encoder: once their graphs are made, no length is slower the first time.

    Raises:
        RuntimeError: A signature has an input of an unknown name.
    """
    middle = max(max_length // 4, SHORT)
    short, *longer = sorted({min(length, max_length) for length in (SHORT, middle, max_length)})
    signatures = _signatures(folder)
    inputs = {name for signature in signatures.values() for name in signature.inputs}
    text_names = inputs - {*SEQUENCE_FEATURES, *_EXAMPLES}
    requests = []
    for signature_name, signature in sorted(signatures.items()):
        sizes = [(short, 1)]
        if signature_name == TEXT_SIGNATURE:
            sizes = [*((short, size) for size in BATCH_SIZES), *((length, 1) for length in longer)]
        elif not {*SEQUENCE_FEATURES}.isdisjoint(signature.inputs):
            sizes += [(length, 1) for length in longer[:1]]
        for length, batch_size in sizes:
            known = _known_inputs(signature, tokenizer, length=length, text_names=text_names)
            request = {}
            for name, info in signature.inputs.items():
                if name not in known:
                    raise RuntimeError(f"no warm-up is known for {name} of {signature_name}")
                others = len(info.tensor_shape.dim) - 1 - known[name].ndim  # choices, windows
                shape = (batch_size, *[2] * others, *known[name].shape)
                request[name] = np.broadcast_to(known[name], shape).tolist()
            requests.append({"signature": signature_name, "inputs": request})
    return requests


def _known_inputs(
    signature, tokenizer: TextTokenizer, *, length: int, text_names: set[str]
) -> dict[str, np.ndarray]:
    """One row of each input: token inputs of `length` tokens, texts that share as many."""
    texts = [name for name, info in signature.inputs.items() if _is_text(name, info)]
    text = _text(tokenizer, num_pieces=length // max(len(texts), 1))
    ids = tokenizer.ids_batch([_text(tokenizer, num_pieces=length)])
    tensors = pack(ids, vocabulary=tokenizer.vocabulary, max_length=length)
    example = _example(text_names, text, tensors)
    return {
        **dict.fromkeys(texts, np.array(text, object)),
        **{name: array[0] for name, array in tensors.items()},
        **dict.fromkeys(_EXAMPLES, np.array(example, object)),
        _POSITIONS: np.ones(1, np.int64),
    }


def write_warmup(folder: str | os.PathLike, requests: Sequence[dict], *, name: str) -> None:
    """Adds `requests` to a SavedModel that the server will call `name`.

    Raises:
        InputError: TF Serving reads fewer.
    """
    if len(requests) > MAX_REQUESTS:
        raise InputError(f"{len(requests)} requests came; TF Serving takes {MAX_REQUESTS}")
    signatures = _signatures(folder)
    path = Path(folder) / WARMUP
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for request in requests:
            asked = PredictRequest()
            asked.model_spec.name = name
            asked.model_spec.signature_name = request["signature"]
            for name_of_input, values in request["inputs"].items():
                info = signatures[request["signature"]].inputs[name_of_input]
                tensor = tf.make_tensor_proto(values, tf.dtypes.as_dtype(info.dtype))
                asked.inputs[name_of_input].CopyFrom(tensor)
            log = PredictionLog(predict_log=PredictLog(request=asked))
            writer.write(log.SerializeToString(deterministic=True))


def warmup_requests(folder: str | os.PathLike) -> list[dict]:
    """Reads what `write_warmup` wrote, with an array for each input; [] where there is no file.

    Raises:
        InputError: The file is damaged.
    """
    path = Path(folder) / WARMUP
    return list(_read(path)) if path.is_file() else []


def _read(path: Path) -> Iterator[dict]:
    try:
        for record in tf.data.TFRecordDataset(os.fspath(path)).as_numpy_iterator():
            asked = PredictionLog.FromString(record).predict_log.request
            yield {
                "signature": asked.model_spec.signature_name,
                "inputs": {name: tf.make_ndarray(asked.inputs[name]) for name in asked.inputs},
            }
    except (tf.errors.DataLossError, DecodeError, TypeError) as error:
        raise InputError(f"{path} does not hold whole PredictionLogs; export the model anew") from (
            error
        )


def _signatures(folder: str | os.PathLike) -> dict:
    saved = SavedModel.FromString((Path(folder) / "saved_model.pb").read_bytes())
    signatures = saved.meta_graphs[0].signature_def
    return {name: signature for name, signature in signatures.items() if signature.inputs}


def _is_text(name: str, info) -> bool:
    return tf.dtypes.as_dtype(info.dtype) == tf.string and name not in _EXAMPLES


def _text(tokenizer: TextTokenizer, *, num_pieces: int) -> str:
    """Words of at most so many tokens together, at least one word."""
    words = _TEXT.split()
    totals = accumulate(cycle(map(len, tokenizer.ids_batch(words))))
    num_words = sum(1 for _ in takewhile(lambda total: total <= num_pieces, totals))
    return " ".join(islice(cycle(words), max(num_words, 1)))


def _example(names: set[str], text: str, tensors: dict[str, np.ndarray]) -> bytes:
    """Holds the text under each of `names`, and the token inputs."""
    example = tf.train.Example()
    for name in sorted(names):
        example.features.feature[name].bytes_list.value.append(text.encode())
    for name, array in tensors.items():
        example.features.feature[name].int64_list.value.extend(array[0].tolist())
    return example.SerializeToString(deterministic=True)

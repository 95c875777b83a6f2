"""Creates, writes and reads the warm-up requests of a SavedModel.

TF Serving runs these requests before a version becomes available. If one of them fails, TF Serving
does not load the version.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog, PredictLog

from bert_keras.data.schema import PREDICTION_FEATURES, SEQUENCE_FEATURES
from bert_keras.errors import InputError
from bert_keras.exporting.servable import TEXT_SIGNATURE, sample_text
from bert_keras.exporting.signatures.derived import serialized
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import TextTokenizer

WARMUP = "assets.extra/tf_serving_warmup_requests"
# Must not exceed the server's maximum batch size, or the server does not load the model.
BATCH_SIZES = (1, 2)
SHORT_LENGTH = 8  # tokens
_EXAMPLES = ("examples", "inputs")  # names of inputs that take serialized tf.Examples
_POSITIONS = PREDICTION_FEATURES[0]


def warmup_requests_for(
    folder: str | os.PathLike, *, tokenizer: TextTokenizer, max_length: int
) -> list[dict]:
    """Creates warm-up requests for every signature of a SavedModel.

    Each signature gets a short text. A signature that takes token ids also gets a text of medium
    length. `serving_default` gets texts of three lengths up to `max_length`, and a batch of two
    short texts. All signatures share the graph of the encoder. After these requests, the first
    request of another length is not slower than later ones.

    Args:
        folder: The folder of the SavedModel.
        tokenizer: The tokenizer of the model.
        max_length: Largest number of tokens of a row, special tokens included.

    Returns:
        Requests in the form of exporting/verify.py.

    Raises:
        RuntimeError: A signature has an input of an unknown name.
    """
    lengths = (SHORT_LENGTH, max(max_length // 4, SHORT_LENGTH), max_length)
    short, *longer = sorted({min(length, max_length) for length in lengths})
    saved_model = SavedModel.FromString((Path(folder) / "saved_model.pb").read_bytes())
    signatures = {
        name: signature
        for name, signature in saved_model.meta_graphs[0].signature_def.items()
        if signature.inputs
    }
    text_names = {
        name
        for signature in signatures.values()
        for name, info in signature.inputs.items()
        if tf.dtypes.as_dtype(info.dtype) == tf.string and name not in _EXAMPLES
    }
    requests = []
    for signature_name, signature in sorted(signatures.items()):
        sizes = [(short, 1)]
        if signature_name == TEXT_SIGNATURE:
            sizes = [*((short, size) for size in BATCH_SIZES), *((length, 1) for length in longer)]
        elif not {*SEQUENCE_FEATURES}.isdisjoint(signature.inputs):
            sizes += [(length, 1) for length in longer[:1]]
        num_texts = max(len(text_names & {*signature.inputs}), 1)
        for length, batch_size in sizes:
            rows = _input_rows(tokenizer, text_names, length=length, num_texts=num_texts)
            inputs = {}
            for name, info in signature.inputs.items():
                if name not in rows:
                    raise RuntimeError(
                        f"the signature {signature_name} has the input {name}; expected inputs "
                        f"among {', '.join(sorted(rows))}"
                    )
                # Dimensions of choices or windows, between the batch and the tokens.
                others = len(info.tensor_shape.dim) - 1 - rows[name].ndim
                shape = (batch_size, *[2] * others, *rows[name].shape)
                inputs[name] = np.broadcast_to(rows[name], shape)
            requests.append({"signature": signature_name, "inputs": inputs})
    return requests


def _input_rows(
    tokenizer: TextTokenizer, text_names: set[str], *, length: int, num_texts: int
) -> dict[str, np.ndarray]:
    """Returns one row for each known input name.

    Tensors have `length` tokens. `num_texts` texts have about `length` tokens together.
    """
    text = sample_text(tokenizer, num_tokens=length // num_texts)
    ids = tokenizer.ids_batch([sample_text(tokenizer, num_tokens=length)])
    tensors = pack(ids, vocabulary=tokenizer.vocabulary, max_length=length)
    example = b"".join(serialized({name: [text] for name in sorted(text_names)}))
    return {
        **dict.fromkeys(text_names, np.array(text, object)),
        **dict.fromkeys(_EXAMPLES, np.array(example, object)),
        **{name: array[0] for name, array in tensors.items()},
        _POSITIONS: np.ones(1, np.int32),
    }


def write_warmup(folder: str | os.PathLike, requests: Sequence[dict], *, name: str) -> None:
    """Adds warm-up requests to a SavedModel.

    Args:
        folder: The folder of the SavedModel.
        requests: Requests in the form of exporting/verify.py.
        name: The name of the model on the server.
    """
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


def warmup_requests(folder: str | os.PathLike) -> list[dict]:
    """Reads the requests that `write_warmup` wrote; each input is an array.

    Returns:
        The requests; [] if the SavedModel has no warm-up file.

    Raises:
        InputError: The file is damaged.
    """
    path = Path(folder) / WARMUP
    if not path.is_file():
        return []
    try:
        records = [*tf.data.TFRecordDataset(os.fspath(path)).as_numpy_iterator()]
        messages = [PredictionLog.FromString(record).predict_log.request for record in records]
        return [
            {
                "signature": each.model_spec.signature_name,
                "inputs": {name: tf.make_ndarray(each.inputs[name]) for name in each.inputs},
            }
            for each in messages
        ]
    except (tf.errors.DataLossError, DecodeError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} does not contain complete PredictionLogs; export the model again"
        ) from error

"""What every exported model is made of: its signatures, and requests whose answers are known."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras.checkpoints.card import ModelCard
from bert_keras.data.schema import SEQUENCE_FEATURES
from bert_keras.export.text_in_graph import TextToInputs
from bert_keras.text.tokenizer import TextTokenizer

# Of a number beside 1, or of a larger one beside itself. Graphs add up in another order than single
# ops: with six trained layers 6e-6 was seen.
TOLERANCE = 1e-4

# To ask every model: plain, empty, and of all kinds of characters.
SAMPLE_TEXTS = (
    "A short sentence.",
    "",
    "Café [MASK] İSTANBUL ß ﬁ ΟΔΟΣ 東京 한국 a\u200bb \x00\ufffd 😀\tend\n",
)
_PHRASE = "words, more than fit; "


def long_text(tokenizer: TextTokenizer, *, num_pieces: int) -> str:
    """Of more than `num_pieces`."""
    (phrase,) = tokenizer.ids_batch([_PHRASE])
    return _PHRASE * (1 + num_pieces // len(phrase))


class Sample(NamedTuple):
    """A request as export/verify.py takes it; the outputs that the Keras model and the code of
    training give for it, text as str."""

    request: dict
    outputs: dict[str, np.ndarray]


class Servable(NamedTuple):
    """Concrete functions by the name of their signature; samples for each of them."""

    signatures: dict[str, Callable]
    samples: list[Sample]


class Exporter(NamedTuple):
    """`make` takes the model, a `reader` of text, a tokenizer, and `settings` of its card."""

    make: Callable[..., Servable]
    settings: Callable[[ModelCard], dict] = lambda card: {}
    reader: type[TextToInputs] = TextToInputs


def samples_of(
    texts: Mapping[str, list], inputs: Mapping[str, np.ndarray], outputs: dict[str, np.ndarray]
) -> list[Sample]:
    """One to `serving_default` and one to `tensors`, which have the same outputs."""
    tensors = {name: array.tolist() for name, array in inputs.items()}
    return [
        Sample({"signature": "serving_default", "inputs": dict(texts)}, outputs),
        Sample({"signature": "tensors", "inputs": tensors}, outputs),
    ]


def check_answer(served: dict, sample: Sample) -> None:
    """`served` holds nested lists by name. Raises RuntimeError where a number is further than
    `TOLERANCE` from the sample's, or anything else is not the same."""
    signature = sample.request["signature"]
    for name, expected in sample.outputs.items():
        found = np.array(served[name], expected.dtype)
        if found.shape != expected.shape:
            raise RuntimeError(
                f"{signature} answers with {name} of the shape {found.shape}; expected "
                f"{expected.shape}"
            )
        if expected.dtype.kind == "f":
            difference = np.abs(found - expected) / np.maximum(np.abs(expected), 1)
            if not difference.max(initial=0) <= TOLERANCE:
                raise RuntimeError(
                    f"{signature} answers with {name} {difference.max():.1e} off the Keras "
                    f"model's; expected at most {TOLERANCE:.0e}"
                )
        elif (found != expected).any():
            raise RuntimeError(f"{signature} answers with {name} other than the Keras model's")


def plain(outputs: dict[str, tf.Tensor]) -> dict[str, np.ndarray]:
    """Arrays of `outputs`, text as str."""
    arrays = {name: np.asarray(tensor) for name, tensor in outputs.items()}
    return {
        name: np.vectorize(bytes.decode, otypes=[object])(array) if array.dtype == object else array
        for name, array in arrays.items()
    }


def tensor_specs(*, rank: int) -> dict[str, tf.TensorSpec]:
    """Of the encoder's inputs, all dimensions open."""
    return {name: tf.TensorSpec([None] * rank, tf.int32, name) for name in SEQUENCE_FEATURES}


def text_specs(names: Sequence[str]) -> dict[str, tf.TensorSpec]:
    """Of one string an instance for each name."""
    return {name: tf.TensorSpec([None], tf.string, name) for name in names}

"""Defines `ServableModel`: traced signatures of a model and samples with expected outputs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import tensorflow as tf

from bert_keras.data.schema import SEQUENCE_FEATURES
from bert_keras.exporting.verify import to_arrays
from bert_keras.text.tokenizer import TextTokenizer

TEXT_SIGNATURE = "serving_default"

# Largest allowed difference, relative to the larger of 1 and the expected value. A graph adds
# numbers in another order than eager ops: 6e-6 was measured for a trained model with six layers.
TOLERANCE = 1e-4

# Samples for every model: a plain text, an empty text, and a text with many kinds of characters.
SAMPLE_TEXTS = (
    "A short sentence.",
    "",
    "Café [MASK] İSTANBUL ß ﬁ ΟΔΟΣ 東京 한국 a\u200bb \x00\ufffd 😀\tend\n",
)
_TEXT = """
The film opens on a quiet street in the rain. Nobody speaks for a while, and then everything
happens at once! Who would have guessed that the old house, sold in 1987 for next to nothing, held
the letters all along? She read them twice, folded them and put them back where they had been. "It
was never about the money," he said; "it was about the two of us." I left the theatre wishing that
it had been an hour longer, which is not what I usually wish for.
"""


class Signature(Protocol):
    """A function that is traced for a SavedModel.

    This is the part of `tf.types.experimental.ConcreteFunction` that this package uses.
    """

    structured_input_signature: tuple
    structured_outputs: Mapping[str, Any]

    def __call__(self, **inputs: tf.Tensor) -> dict[str, tf.Tensor]: ...


class Sample(NamedTuple):
    """A sample request and its expected outputs."""

    request: dict  # {"signature": name, "inputs": {name: values}}, see exporting/verify.py
    # Outputs by name, computed by the Keras model and the text processing of training. Text is str.
    outputs: dict[str, np.ndarray]


class ServableModel(NamedTuple):
    """A model in the form that can be exported."""

    signatures: dict[str, Signature]  # by name
    samples: list[Sample]  # requests that verify the exported signatures


def traced(function: Callable[..., Mapping], **specs: tf.TypeSpec) -> Signature:
    """Traces `function` for keyword arguments of these specs.

    Trace the model in one signature and call that signature from the others, so that the graph of
    the encoder is stored once. Autograph is off, because it takes seconds to convert the functions
    of each signature. Loops and conditions on tensors therefore need `tf.while_loop` and `tf.cond`.
    """
    return cast(Any, tf.function(function, autograph=False)).get_concrete_function(**specs)


def text_signatures(
    from_tensors: Callable[..., Mapping[str, tf.Tensor]],
    text_to_inputs: Callable[..., Mapping[str, tf.Tensor]],
    *,
    names: Sequence[str] = ("text",),
) -> dict[str, Signature]:
    """Builds the signatures `serving_default` and `tensors`.

    `serving_default` takes texts, and `tensors` takes `input_ids`, `input_mask` and `segment_ids`,
    int32 [B,T]. Both return the outputs of `from_tensors`.

    Args:
        from_tensors: Takes the model's inputs as keyword arguments and returns outputs by name.
        text_to_inputs: Converts one or two texts, string [B], to the model's inputs.
        names: The names of the inputs of `serving_default`, one for each text.
    """
    tensors = traced(from_tensors, **tensor_specs(rank=2))

    def from_text(**texts):
        return tensors(**text_to_inputs(*(texts[name] for name in names)))

    return {TEXT_SIGNATURE: traced(from_text, **text_specs(names)), "tensors": tensors}


def sample_text(tokenizer: TextTokenizer, *, num_tokens: int) -> str:
    """Returns a text of at most `num_tokens` tokens, but at least one word."""
    words = _TEXT.split()
    totals = np.cumsum([len(ids) for ids in tokenizer.ids_batch(words)])
    num_repeats, num_others = divmod(num_tokens, totals[-1])
    num_words = num_repeats * len(words) + np.searchsorted(totals, num_others, side="right")
    return " ".join((words * (num_repeats + 1))[: max(num_words, 1)])


def samples_of(
    texts: Mapping[str, list],
    inputs_of: Callable[..., Mapping[str, np.ndarray]],
    outputs_of: Callable[..., Mapping[str, Any]],
    *,
    signature: str = TEXT_SIGNATURE,
) -> list[Sample]:
    """Returns samples for a text signature and for `tensors`, which have the same outputs.

    Each signature gets one request with all texts and one with the first text alone.

    Args:
        texts: The inputs of `signature` by name; each is a list with one entry for each text.
        inputs_of: Takes these lists as positional arguments and returns the model's inputs. It uses
            the text processing of training.
        outputs_of: Takes the model's inputs as keyword arguments and returns the outputs of the
            Keras model.
        signature: The name of the text signature.
    """
    samples = []
    for size in (None, 1):
        chosen = {name: column[:size] for name, column in texts.items()}
        inputs = inputs_of(*chosen.values())
        with tf.device("CPU:0"):
            outputs = to_arrays(outputs_of(**inputs))
        samples.append(Sample({"signature": signature, "inputs": chosen}, outputs))
        samples.append(Sample({"signature": "tensors", "inputs": inputs}, outputs))
    return samples


def check_outputs(served: dict, sample: Sample) -> None:
    """Compares the outputs of a SavedModel with the expected outputs of a sample.

    Args:
        served: Nested lists by output name.
        sample: The sample that was sent.

    Raises:
        RuntimeError: A float differs by more than `TOLERANCE`, or another value or a shape differs.
    """
    for name, expected in sample.outputs.items():
        array = np.array(served[name], expected.dtype)
        output = f"the output {name} of the signature {sample.request['signature']}"
        if array.shape != expected.shape:
            raise RuntimeError(f"{output} has the shape {array.shape}; expected {expected.shape}")
        if expected.dtype.kind == "f":
            difference = np.abs(array - expected) / np.maximum(np.abs(expected), 1)
            if not difference.max(initial=0) <= TOLERANCE:
                raise RuntimeError(
                    f"{output} differs by {difference.max():.1e} from the Keras model's; expected "
                    f"at most {TOLERANCE:.0e}"
                )
        elif (array != expected).any():
            raise RuntimeError(f"{output} differs from the Keras model's")


def eager_outputs(model: Callable, inputs: Mapping[str, np.ndarray]) -> Any:
    """Returns the outputs of the Keras model for `inputs` as arrays; runs on the CPU."""
    with tf.device("CPU:0"):
        return tf.nest.map_structure(np.asarray, model(inputs, training=False))


def tensor_specs(*, rank: int) -> dict[str, tf.TensorSpec]:
    """Returns specs of the encoder's inputs, int32, with `rank` dimensions of any size."""
    return {name: tf.TensorSpec([None] * rank, tf.int32, name) for name in SEQUENCE_FEATURES}


def text_specs(names: Sequence[str]) -> dict[str, tf.TensorSpec]:
    """Returns a spec for each name: string [B], one text for each instance."""
    return {name: tf.TensorSpec([None], tf.string, name) for name in names}

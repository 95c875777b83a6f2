"""What every exported model is made of: traced signatures, and requests with known outputs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import tensorflow as tf

from bert_keras.data.schema import SEQUENCE_FEATURES
from bert_keras.export.verify import plain
from bert_keras.text.tokenizer import TextTokenizer

TEXT_SIGNATURE = "serving_default"

# Relative to the larger of 1 and the expected number. A graph adds in another order than single
# ops do: 6e-6 was measured with six trained layers.
TOLERANCE = 1e-4

# Sent to every model: a plain text, an empty one, and one of all kinds of characters.
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
    """A function traced for a SavedModel, as `tf.types.experimental.ConcreteFunction`."""

    structured_input_signature: tuple
    structured_outputs: Mapping[str, Any]

    def __call__(self, **inputs: tf.Tensor) -> dict[str, tf.Tensor]: ...


class Sample(NamedTuple):
    """A request in the form of export/verify.py, and the outputs that the Keras model and the code
    of training give for it; text is str."""

    request: dict
    outputs: dict[str, np.ndarray]


class Servable(NamedTuple):
    """Signatures by name, and samples for each of them."""

    signatures: dict[str, Signature]
    samples: list[Sample]


def traced(function: Callable[..., Mapping], **specs: tf.TypeSpec) -> Signature:
    """Traces `function` for keyword arguments of these specs.

    A model is traced once in one signature, which the others call: the graph of the encoder is then
    stored once. Loops and conditions on tensors need `tf.while_loop` and `tf.cond`: autograph is
    off, which would take seconds to convert the functions of each signature.
    """
    return cast(Any, tf.function(function, autograph=False)).get_concrete_function(**specs)


def text_signatures(
    from_tensors: Callable[..., Mapping[str, tf.Tensor]],
    text_to_inputs: Callable[..., Mapping[str, tf.Tensor]],
    *,
    names: Sequence[str] = ("text",),
) -> dict[str, Signature]:
    """`tensors` takes `input_ids`, `input_mask`, `segment_ids`, int32 [B,T], and `serving_default`
    a string [B] for each of `names`. Both return what `from_tensors` returns."""
    tensors = traced(from_tensors, **tensor_specs(rank=2))

    def from_text(**texts):
        return tensors(**text_to_inputs(*(texts[name] for name in names)))

    return {TEXT_SIGNATURE: traced(from_text, **text_specs(names)), "tensors": tensors}


def sample_text(tokenizer: TextTokenizer, *, num_tokens: int) -> str:
    """Words of at most so many tokens together, at least one word."""
    words = _TEXT.split()
    totals = np.cumsum([len(ids) for ids in tokenizer.ids_batch(words)])
    rounds, rest = divmod(num_tokens, totals[-1])
    num_words = rounds * len(words) + np.searchsorted(totals, rest, side="right")
    return " ".join((words * (rounds + 1))[: max(num_words, 1)])


def samples_of(
    texts: Mapping[str, list],
    inputs_of: Callable[..., Mapping[str, np.ndarray]],
    outputs_of: Callable[..., Mapping[str, Any]],
    *,
    signature: str = TEXT_SIGNATURE,
) -> list[Sample]:
    """Returns samples for a signature on text and for `tensors`, which have the same outputs: all
    texts together, then the first alone.

    Args:
        texts: The inputs of `signature`.
        inputs_of: Takes their columns and makes the model's inputs by the code of training.
        outputs_of: Takes these inputs by name and calls the Keras model.
        signature: On text.
    """
    samples = []
    for size in (None, 1):
        chosen = {name: column[:size] for name, column in texts.items()}
        inputs = inputs_of(*chosen.values())
        with tf.device("CPU:0"):
            outputs = plain(outputs_of(**inputs))
        samples.append(Sample({"signature": signature, "inputs": chosen}, outputs))
        samples.append(Sample({"signature": "tensors", "inputs": inputs}, outputs))
    return samples


def check_answer(served: dict, sample: Sample) -> None:
    """Compares `served`, nested lists by name, with the outputs of a sample.

    Raises:
        RuntimeError: A number differs by more than `TOLERANCE`, or anything else differs at all.
    """
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


def eager_outputs(model: Callable, inputs: Mapping[str, np.ndarray]) -> Any:
    """What the Keras model returns for `inputs`, as arrays."""
    with tf.device("CPU:0"):
        return tf.nest.map_structure(np.asarray, model(inputs, training=False))


def tensor_specs(*, rank: int) -> dict[str, tf.TensorSpec]:
    """Specs of the encoder's inputs, int32 with every dimension open."""
    return {name: tf.TensorSpec([None] * rank, tf.int32, name) for name in SEQUENCE_FEATURES}


def text_specs(names: Sequence[str]) -> dict[str, tf.TensorSpec]:
    """Specs of one string per instance for each name."""
    return {name: tf.TensorSpec([None], tf.string, name) for name in names}

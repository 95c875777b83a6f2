"""Builds the SavedModel signatures and samples of a text classifier."""

from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from bert_keras.config import ModelMetadata
from bert_keras.downstream.texts import windows_of
from bert_keras.errors import InputError
from bert_keras.exporting.servable import (
    SAMPLE_TEXTS,
    ServableModel,
    Signature,
    sample_text,
    samples_of,
    tensor_specs,
    text_signatures,
    text_specs,
    traced,
)
from bert_keras.exporting.signatures.classifier_outputs import classifier_outputs
from bert_keras.exporting.signatures.derived import on_examples
from bert_keras.exporting.signatures.exporter import Exporter
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs
from bert_keras.exporting.text_ops.windows import WINDOWS_AT_ONCE, pooled_logits, windows_of_tensors
from bert_keras.models.task_models import WINDOW_POOLINGS
from bert_keras.text.encode import encode
from bert_keras.text.tokenizer import TextTokenizer

# Output names of TF Serving's classification and regression APIs -> output names of this package.
_CLASSIFY_OUTPUTS = {"classes": "labels", "scores": "probabilities"}
_REGRESS_OUTPUTS = {"outputs": "score"}


def served_classifier(
    model: keras.Model,
    reader: TextToInputs,
    tokenizer: TextTokenizer,
    *,
    labels: Sequence[str],
    num_texts: int = 1,
    problem_type: str = "",
    stride: int | None = None,
) -> ServableModel:
    """Builds the signatures of a classifier.

    `serving_default` takes raw texts, and `tensors` takes `input_ids`, `input_mask` and
    `segment_ids`. TF Serving's classification API uses `classify`, and its regression API uses
    `regress`; the servable has one of the two. `classifier_outputs` documents the outputs.

    Args:
        model: Takes a dict of `input_ids`, `input_mask`, `segment_ids`, int32 [B,T], and returns
            logits, float32 [B,N].
        reader: Converts texts to these inputs inside the graph.
        tokenizer: The same tokenizer outside the graph, which computes the samples.
        labels: The N labels in the order of the logits.
        num_texts: The number of texts of an instance. `serving_default` takes `text`, string [B],
            and, for 2, also `text_pair`, string [B].
        problem_type: The meaning of the logits, as in `ModelMetadata.problem_type`.
        stride: None cuts texts that exceed `reader.max_length`. A number divides them into windows
            that begin `stride` tokens apart, as `downstream.texts.windows_of` does. This needs a
            BertClassifier, and `tensors` then takes int32 [B,W,T].

    Returns:
        The signatures and samples.

    Raises:
        InputError: The settings do not fit each other or the model.
    """
    if num_texts not in (1, 2):
        raise InputError(f"num_texts is {num_texts}; expected 1 or 2")
    if stride is not None and (type(stride) is not int or stride < 1):
        raise InputError(f"stride is {stride!r}; expected a number of tokens, at least 1")
    if stride is not None and not hasattr(model, "window_pooling"):
        raise InputError(f"stride is {stride}, but a {type(model).__name__} has no windows")
    outputs_of = classifier_outputs(labels, problem_type=problem_type)
    names = ("text", "text_pair")[:num_texts]

    def from_tensors(**inputs):
        return outputs_of(model(inputs, training=False))

    def inputs_of(*columns):
        return _packed(columns, tokenizer, max_length=reader.max_length, stride=stride)

    texts = _sample_texts(names, tokenizer, max_length=reader.max_length, stride=stride)
    samples = samples_of(texts, inputs_of, from_tensors)
    if stride is None:
        signatures = text_signatures(from_tensors, reader, names=names)
    else:
        signatures = window_signatures(
            model, reader, outputs_of=outputs_of, names=names, stride=stride
        )
    has_score = "score" in signatures["tensors"].structured_outputs
    return on_examples(
        ServableModel(signatures, samples),
        signature="regress" if has_score else "classify",
        input_name="inputs",
        outputs=_REGRESS_OUTPUTS if has_score else _CLASSIFY_OUTPUTS,
    )


def window_signatures(
    model: keras.Model,
    reader: TextToInputs,
    *,
    outputs_of: Callable[[tf.Tensor], dict[str, tf.Tensor]],
    names: Sequence[str],
    stride: int,
) -> dict[str, Signature]:
    """Builds `serving_default` and `tensors` for a BertClassifier that reads windows.

    Args:
        model: Its `window_pooling` states how the logits of the windows are pooled.
        reader: Converts texts to windows inside the graph.
        outputs_of: Converts pooled logits, float32 [B,N], to outputs.
        names: The names of the inputs of `serving_default`, each string [B].
        stride: Number of tokens between the starts of consecutive windows.

    Returns:
        The signatures by name. `tensors` takes int32 [B,W,T].
    """

    def from_rows(**inputs):
        return {"logits": model(inputs, training=False)}

    logits_of = traced(from_rows, **tensor_specs(rank=2))

    def pooled(windows):
        return outputs_of(pooled_logits(logits_of, windows, pooling=model.window_pooling))

    def from_tensors(**inputs):
        return pooled(windows_of_tensors(inputs))

    def from_text(**texts):
        return pooled(reader.windows(*(texts[name] for name in names), stride=stride))

    return {
        "serving_default": traced(from_text, **text_specs(names)),
        "tensors": traced(from_tensors, **tensor_specs(rank=3)),
    }


def _sample_texts(
    names: Sequence[str], tokenizer: TextTokenizer, *, max_length: int, stride: int | None
) -> dict[str, list[str]]:
    """Returns short texts and one text that exceeds `max_length`, by input name.

    With a `stride`, the long text has more windows than the graph evaluates at once.
    """
    num_tokens = 2 * max_length + WINDOWS_AT_ONCE * (stride or 0)
    texts = [*SAMPLE_TEXTS, sample_text(tokenizer, num_tokens=num_tokens)]
    columns = [texts[::-1], texts][-len(names) :]
    if len(names) == 2 and stride is not None:
        ids = tokenizer.ids_batch(columns[0])
        # A first text that leaves few tokens for the second would give thousands of windows.
        limit = max_length // 2 - 3
        columns[0] = [t if len(i) <= limit else "" for t, i in zip(columns[0], ids, strict=True)]
    return dict(zip(names, columns, strict=True))


def _packed(
    columns: Sequence[list[str]], tokenizer: TextTokenizer, *, max_length: int, stride: int | None
) -> dict[str, np.ndarray]:
    """Returns the model's inputs, int32 [B,T] by name; with a `stride` int32 [B,W,T]."""
    if stride is None:
        return encode(tokenizer, *columns, max_length=max_length)
    ids = [tokenizer.ids_batch(column) for column in columns]
    rows = np.arange(len(ids[0]))
    encoded = windows_of(
        tuple(ids),
        rows,  # unused targets
        max_length=max_length,
        stride=stride,
        vocabulary=tokenizer.vocabulary,
        locations=[f"sample {row}" for row in rows],
    )
    return encoded.batch(rows)[0]


def _settings(metadata: ModelMetadata, source: str) -> dict:
    reads_windows = metadata.task.get("long_texts") in WINDOW_POOLINGS
    return {
        "labels": metadata.labels,
        "num_texts": len(metadata.text_columns) or 1,
        "problem_type": metadata.problem_type,
        "stride": metadata.task.get("stride", 0) if reads_windows else None,
    }


EXPORTER = Exporter(served_classifier, _settings)

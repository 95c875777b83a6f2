"""Defines `ServableModel`, the traced signatures of a model, and what builds them."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.data.record_file import SEQUENCE_FEATURES
from bert_keras.exporting.text_ops.text_to_inputs import TextToInputs

TEXT_SIGNATURE = "serving_default"
Signature = Any  # tf.types.experimental.ConcreteFunction, for which the type checker has no stubs


class ServableModel(NamedTuple):
    """A model in the form that can be exported."""

    signatures: dict[str, Signature]  # by name
    # What `tensors` computes. Called eagerly, it returns the outputs of the Keras model.
    from_tensors: Callable[..., Mapping[str, tf.Tensor]]


class Exporter(NamedTuple):
    """Builds the `ServableModel` of a kind of model; each module in signatures/ defines one."""

    # (model, reader, **settings) -> ServableModel; the reader converts texts inside the graph
    make: Callable[..., ServableModel]
    settings: Callable[[ModelMetadata], dict] = lambda metadata: {}
    reader: type[TextToInputs] = TextToInputs


@contextlib.contextmanager
def set_while_tracing(objects: Sequence, name: str) -> Iterator[None]:
    """Sets an attribute of objects to True while a graph is traced."""
    before = [getattr(each, name) for each in objects]
    try:
        for each in objects:
            setattr(each, name, True)
        yield
    finally:
        for each, value in zip(objects, before, strict=True):
            setattr(each, name, value)


def traced(function: Callable[..., Mapping], **specs: tf.TypeSpec) -> Signature:
    """Traces `function` for keyword arguments of these specs.

    Trace the model in one signature and call it from the others, so that its graph is stored once.
    """
    traceable: Any = tf.function(function, autograph=False)  # which takes seconds a signature
    return traceable.get_concrete_function(**specs)


def input_specs(signature: Signature) -> dict[str, tf.TensorSpec]:
    """Returns the specs of the inputs of a signature by name."""
    return {spec.name: spec for spec in tf.nest.flatten(signature.structured_input_signature)}


def tensor_specs(*, rank: int) -> dict[str, tf.TensorSpec]:
    """Returns specs of the encoder's inputs, int32, with `rank` dimensions of any size."""
    return {name: tf.TensorSpec([None] * rank, tf.int32, name) for name in SEQUENCE_FEATURES}


def text_specs(names: Sequence[str]) -> dict[str, tf.TensorSpec]:
    """Returns a spec for each name: string [B], one text for each instance."""
    return {name: tf.TensorSpec([None], tf.string, name) for name in names}


def text_servable(
    from_tensors: Callable[..., Mapping[str, tf.Tensor]],
    text_to_inputs: Callable[..., Mapping[str, tf.Tensor]],
    *,
    names: Sequence[str] = ("text",),
) -> ServableModel:
    """Builds `serving_default`, which takes texts, and `tensors`, which takes int32 [B,T]."""
    tensors = traced(from_tensors, **tensor_specs(rank=2))

    def from_text(**texts):
        return tensors(**text_to_inputs(*(texts[name] for name in names)))

    signatures = {TEXT_SIGNATURE: traced(from_text, **text_specs(names)), "tensors": tensors}
    return ServableModel(signatures, from_tensors)


def checked_tensors(tensors: Signature, *, config: BertConfig, cls_id: int) -> Signature:
    """Makes the signature `tensors` refuse impossible rows and mask the padding of TF Serving.

    With `pad_variable_length_inputs`, TF Serving pads each tensor of a row with the first value of
    the row: `input_ids` with [CLS] and `input_mask` with 1 (batching_util.cc). `tensors` therefore
    sets `input_mask` to 0 for all [CLS] tokens at the end of a row.
    """

    def from_tensors(**inputs):
        longest = tf.reduce_max([tf.shape(values)[-1] for values in inputs.values()])
        limits = {"input_ids": config.vocab_size, "input_mask": 2}
        limits["segment_ids"] = max(2, config.num_segments)
        message = f"an input has more than {config.max_positions} positions"
        checks = [tf.debugging.Assert(longest <= config.max_positions, [message])]
        for name, limit in limits.items():
            are_valid = tf.reduce_all((inputs[name] >= 0) & (inputs[name] < limit))
            message = f"{name} has numbers other than 0 to {limit - 1}"
            checks.append(tf.debugging.Assert(are_valid, [message]))
        with tf.control_dependencies(checks):
            inputs = {name: tf.identity(values) for name, values in inputs.items()}
        is_other = tf.cast(inputs["input_ids"] != cls_id, tf.int32)
        is_sent = tf.cumsum(is_other, axis=-1, reverse=True) > 0
        mask = inputs["input_mask"] * tf.cast(is_sent, tf.int32)
        return tensors(**{**inputs, "input_mask": mask})

    return traced(from_tensors, **input_specs(tensors))

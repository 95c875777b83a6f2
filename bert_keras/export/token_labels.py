"""A trained token classifier and its labels come in; a folder that TF Serving loads goes out."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.export.entities_in_graph import entities, word_rows
from bert_keras.export.servable import Exporter, Servable, tensor_specs, text_specs
from bert_keras.export.text_in_graph import TextToInputs
from bert_keras.export.token_label_samples import samples
from bert_keras.export.windows_in_graph import in_parts
from bert_keras.text.tokenizer import TextTokenizer


def served_token_labels(
    model: keras.Model,
    reader: TextToInputs,
    tokenizer: TextTokenizer,
    *,
    labels: Sequence[str],
) -> Servable:
    """Of a model that takes what a BertTokenClassifier does and returns logits [B,T,N] in the order
    of `labels`. White space, punctuation and CJK characters part the words of running text. Raises
    InputError where labels and logits do not fit.
    """
    if len(labels) != model.num_labels:
        raise InputError(f"{len(labels)} labels came with {model.num_labels} logits")
    return Servable(
        signatures(model, reader=reader, labels=labels),
        samples(model, tokenizer=tokenizer, max_length=reader.max_length, labels=labels),
    )


def signatures(
    model: keras.Model, *, reader: TextToInputs, labels: Sequence[str]
) -> dict[str, Callable]:
    """`serving_default`: `text`, string [B], to `entities` and `labels`, string, `starts` and
    `ends`, int32, and `scores`, float32, all [B,E]. `tensors`: `input_ids`, `input_mask`,
    `segment_ids`, int32 [B,T], to `probabilities` float32 [B,T,N], in the order of `label_names`
    string [B,N], and `label_ids` int32 [B,T]; both are 0 where there is padding.
    """

    @tf.function
    def from_tensors(**inputs):
        is_real_BT1 = tf.cast(inputs["input_mask"] > 0, tf.float32)[..., None]
        probabilities = tf.nn.softmax(model(inputs, training=False)) * is_real_BT1
        return {
            "label_ids": tf.argmax(probabilities, axis=-1, output_type=tf.int32),
            "label_names": tf.tile([list(labels)], [tf.shape(probabilities)[0], 1]),
            "probabilities": probabilities,
        }

    labels_of = from_tensors.get_concrete_function(**tensor_specs(rank=2))

    @tf.function
    def from_text(text):
        pieces = reader.placed_word_pieces(text)
        rows = word_rows(pieces, limit=reader.max_length - 2)
        inputs = reader.packed(rows.texts)

        def likeliest(**inputs):
            found = labels_of(**inputs)
            best = tf.reduce_max(found["probabilities"], axis=-1)
            return {
                "label_ids": tf.reshape(found["label_ids"], [-1]),
                "probabilities": tf.reshape(best, [-1]),
            }

        outputs = {
            "label_ids": tf.TensorSpec([None], tf.int32),
            "probabilities": tf.TensorSpec([None], tf.float32),
        }
        found = in_parts(inputs, likeliest, outputs=outputs)
        length = tf.shape(inputs["input_ids"], tf.int64)[1]
        places = rows.rows * length + rows.places + 1  # [CLS]
        return entities(
            tf.gather(found["label_ids"], places),
            tf.gather(found["probabilities"], places),
            pieces=pieces,
            labels=labels,
        )

    return {
        "serving_default": from_text.get_concrete_function(**text_specs(("text",))),
        "tensors": labels_of,
    }


EXPORTER = Exporter(served_token_labels, settings=lambda card: {"labels": card.labels})

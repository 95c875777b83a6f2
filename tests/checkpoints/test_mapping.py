import dataclasses

import numpy as np
import pytest

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.google.folder import GOOGLE
from bert_keras.checkpoints.huggingface.folder import HUGGING_FACE
from bert_keras.checkpoints.mapping import foreign_tensors, translated
from bert_keras.checkpoints.weight_rows import rows
from bert_keras.errors import InputError
from bert_keras.models import MODELS
from bert_keras.models.pretrained import named_weights

# BERT's with weights or settings of our own; in Hugging Face, only an ELECTRA is a discriminator.
NATIVE_ONLY = (
    "BertDiscriminator",
    "BertReplacedTokenPretrainer",
    "BertFeatureTagger",
    "BertSentenceEncoder",
)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *((name, {}) for name in ARCHITECTURES),
        ("BertEncoder", {"has_pooler": False}),
        ("BertFeatureTagger", {"has_pooler": False, "num_lstm_layers": 2}),
        ("BertMaskedLM", {"embedding_size": 4, "shares_layers": True}),
        ("BertPretrainer", {"norm_position": "pre", "position_kind": "rotary", "is_gated": True}),
        ("BertMaskedLM", {"norm_position": "pre", "has_biases": False, "ties_decoder": False}),
        ("BertQuestionAnswering", {"has_head_norm": True, "has_biases": False}),
        ("BertTokenClassifier", {"has_head_norm": True}),
        ("BertClassifier", {"has_head_norm": True, "has_biases": False, "pooling": "mean"}),
    ],
)
def test_the_table_has_every_weight_of_every_model_once(checkpoint, name, changes):
    original = checkpoint(name, **changes)
    model = MODELS[name].from_checkpoint(original, metadata=original.metadata, source="random")
    weights = {n: tuple(w.shape) for n, w in named_weights(model).items()}
    table = rows(original.metadata)
    assert {row.name: row.shape for row in table} == weights
    assert len(table) == len(weights)
    for column in (GOOGLE, HUGGING_FACE):
        names = [name for row in table if (name := column.name(row.name, original.metadata))]
        assert len(set(names)) == len(names)
    for n, weight in named_weights(model).items():
        np.testing.assert_array_equal(weight, original.tensors[n].read())


@pytest.mark.parametrize(
    ("column", "public_name", "foreign_name"),
    [
        (GOOGLE, "encoder/layer_1/attention/query/kernel",
         "bert/encoder/layer_1/attention/self/query/kernel"),
        (GOOGLE, "encoder/layer_0/feed_forward_norm/gamma",
         "bert/encoder/layer_0/output/LayerNorm/gamma"),
        (GOOGLE, "next_sentence/dense/kernel", "cls/seq_relationship/output_weights"),
        (HUGGING_FACE, "encoder/embeddings/segment", "embeddings.token_type_embeddings.weight"),
        (HUGGING_FACE, "encoder/layer_1/attention_norm/beta",
         "encoder.layer.1.attention.output.LayerNorm.bias"),
        (HUGGING_FACE, "masked_lm/norm/gamma", "cls.predictions.transform.LayerNorm.weight"),
    ],
)  # fmt: skip
def test_names_of_the_formats(checkpoint, column, public_name, foreign_name):
    metadata = checkpoint("BertPretrainer").metadata
    assert public_name in {row.name for row in rows(metadata)}
    assert column.name(public_name, metadata) == foreign_name


@pytest.mark.parametrize("column", [GOOGLE, HUGGING_FACE])
def test_only_the_native_format_stores_a_causal_encoder(checkpoint, column):
    original = checkpoint("BertEncoder")
    config = dataclasses.replace(original.metadata.config, is_causal=True)
    metadata = dataclasses.replace(original.metadata, config=config)
    with pytest.raises(
        InputError,
        match=rf"{column.format} cannot store an encoder of no known kind.*'is_causal': True",
    ):
        foreign_tensors(original.tensors, metadata=metadata, column=column)


@pytest.mark.parametrize(
    ("column", "models"),
    [
        (GOOGLE, ["BertEncoder", "BertPretrainer", "BertClassifier", "BertQuestionAnswering"]),
        (HUGGING_FACE, [each for each in ARCHITECTURES if each not in NATIVE_ONLY]),
    ],
)
def test_translated_weights_equal_the_originals(checkpoint, column, models):
    for model in models:
        original = checkpoint(model)
        foreign = foreign_tensors(original.tensors, metadata=original.metadata, column=column)
        back, unused = translated(foreign, metadata=original.metadata, column=column)
        assert unused == ()
        for name, tensor in original.tensors.items():
            array = back[name].read()
            assert array.tobytes() == tensor.read().tobytes(), name
            assert array.shape == back[name].shape


def test_kernels_are_transposed(checkpoint):
    original = checkpoint("BertPretrainer")
    for column, public_name, foreign_name in (
        (GOOGLE, "next_sentence/dense/kernel", "cls/seq_relationship/output_weights"),
        (HUGGING_FACE, "encoder/pooler/kernel", "pooler.dense.weight"),
    ):
        foreign = foreign_tensors(original.tensors, metadata=original.metadata, column=column)[
            foreign_name
        ]
        np.testing.assert_array_equal(foreign.read(), original.tensors[public_name].read().T)
        assert foreign.read().flags.c_contiguous


def test_all_problems_are_named_at_once(checkpoint):
    original = checkpoint("BertClassifier")
    foreign = foreign_tensors(original.tensors, metadata=original.metadata, column=HUGGING_FACE)
    del foreign["pooler.dense.bias"]
    foreign["classifier.weight"] = foreign["classifier.weight"].transposed()
    foreign["mine"] = foreign["theirs"] = foreign["classifier.bias"]
    with pytest.raises(InputError) as error:
        translated(foreign, metadata=original.metadata, column=HUGGING_FACE, ignore=("theirs",))
    assert str(error.value) == (
        "the weights are not those of a BertClassifier of 2 layers and hidden size 8: "
        "pooler.dense.bias is missing; classifier.weight has the shape (8, 3), expected (3, 8); "
        "mine is unexpected"
    )


def test_models_that_a_format_cannot_store_are_refused(checkpoint):
    original = checkpoint("BertTokenClassifier")
    with pytest.raises(InputError, match=r"google cannot store token_labels/dense/kernel of a"):
        foreign_tensors(original.tensors, metadata=original.metadata, column=GOOGLE)
    original = checkpoint("BertFeatureTagger")
    for column in (GOOGLE, HUGGING_FACE):
        with pytest.raises(InputError, match=r"cannot store tagger/layer_mix/layer_logits of"):
            foreign_tensors(original.tensors, metadata=original.metadata, column=column)


def test_a_config_with_more_layers_is_refused(checkpoint):
    original = checkpoint("BertEncoder")
    deeper = dataclasses.replace(
        original.metadata, config=dataclasses.replace(original.metadata.config, num_layers=3)
    )
    foreign = foreign_tensors(original.tensors, metadata=original.metadata, column=GOOGLE)
    with pytest.raises(InputError, match=r"of 3 layers .*layer_2/attention/self/query/kernel is"):
        translated(foreign, metadata=deeper, column=GOOGLE)

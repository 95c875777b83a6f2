import dataclasses

import numpy as np
import pytest

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.google.folder import GOOGLE
from bert_keras.checkpoints.huggingface.folder import HUGGING_FACE
from bert_keras.checkpoints.keras_hub.folder import KERAS_HUB
from bert_keras.checkpoints.mapping import foreign_tensors, rows, translated
from bert_keras.errors import InputError
from bert_keras.models import MODELS
from bert_keras.models.pretrained import named_weights


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *((name, {}) for name in ARCHITECTURES),
        ("BertEncoder", {"has_pooler": False}),
        ("BertFeatureTagger", {"has_pooler": False, "num_lstm_layers": 2}),
        ("BertMaskedLM", {"embedding_size": 4, "shares_layers": True}),
    ],
)
def test_the_table_holds_every_weight_of_every_model_once(checkpoint, name, changes):
    given = checkpoint(name, **changes)
    model = MODELS[name].from_checkpoint(given, card=given.card, source="random")
    weights = {n: tuple(w.shape) for n, w in named_weights(model).items()}
    table = rows(given.card)
    assert {row.name: row.shape for row in table} == weights
    assert len(table) == len(weights)
    for column in (GOOGLE, HUGGING_FACE, KERAS_HUB):
        names = [name for row in table if (name := column.name(row.name, given.card))]
        assert len(set(names)) == len(names)
    for n, weight in named_weights(model).items():
        np.testing.assert_array_equal(weight, given.tensors[n].read())


@pytest.mark.parametrize(
    ("column", "ours", "theirs"),
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
        (KERAS_HUB, "masked_lm/transform/bias", 
         "task.weights.h5/layers/masked_lm_head/_intermediate_dense/vars/1"),
    ],
)  # fmt: skip
def test_names_of_the_formats(checkpoint, column, ours, theirs):
    card = checkpoint("BertPretrainer").card
    assert ours in {row.name for row in rows(card)}
    assert column.name(ours, card) == theirs


@pytest.mark.parametrize("column", [GOOGLE, HUGGING_FACE, KERAS_HUB])
def test_no_other_format_has_a_place_for_a_causal_encoder(checkpoint, column):
    given = checkpoint("BertEncoder")
    config = dataclasses.replace(given.card.config, is_causal=True)
    card = dataclasses.replace(given.card, config=config)
    with pytest.raises(
        InputError,
        match=rf"{column.format} has no place for an encoder of these .*'is_causal': True",
    ):
        foreign_tensors(given.tensors, card=card, column=column)


@pytest.mark.parametrize(
    ("column", "models"),
    [
        (GOOGLE, ["BertEncoder", "BertPretrainer", "BertClassifier", "BertQuestionAnswering"]),
        (HUGGING_FACE, [each for each in ARCHITECTURES if each != "BertFeatureTagger"]),
        (KERAS_HUB, ["BertEncoder", "BertMaskedLM", "BertClassifier"]),
    ],
)
def test_there_and_back(checkpoint, column, models):
    for model in models:
        given = checkpoint(model)
        foreign = foreign_tensors(given.tensors, card=given.card, column=column)
        back, left_over = translated(foreign, card=given.card, column=column)
        assert left_over == ()
        for name, tensor in given.tensors.items():
            array = back[name].read()
            assert array.tobytes() == tensor.read().tobytes(), name
            assert array.shape == back[name].shape


def test_layouts(checkpoint):
    given = checkpoint("BertPretrainer")
    for column, ours, theirs in (
        (GOOGLE, "next_sentence/dense/kernel", "cls/seq_relationship/output_weights"),
        (HUGGING_FACE, "encoder/pooler/kernel", "pooler.dense.weight"),
    ):
        foreign = foreign_tensors(given.tensors, card=given.card, column=column)[theirs]
        np.testing.assert_array_equal(foreign.read(), given.tensors[ours].read().T)
        assert foreign.read().flags.c_contiguous


def test_all_faults_are_named_at_once(checkpoint):
    given = checkpoint("BertClassifier")
    foreign = foreign_tensors(given.tensors, card=given.card, column=HUGGING_FACE)
    del foreign["pooler.dense.bias"]
    foreign["classifier.weight"] = foreign["classifier.weight"].transposed()
    foreign["mine"] = foreign["theirs"] = foreign["classifier.bias"]
    with pytest.raises(InputError) as error:
        translated(foreign, card=given.card, column=HUGGING_FACE, ignore=("theirs",))
    assert str(error.value) == (
        "the weights are not those of a BertClassifier of 2 layers and hidden size 8: "
        "pooler.dense.bias is missing; classifier.weight is (8, 3), expected (3, 8); "
        "mine is unexpected"
    )


def test_a_model_that_a_format_has_no_place_for(checkpoint):
    given = checkpoint("BertTokenClassifier")
    with pytest.raises(InputError, match=r"google has no place for token_labels/dense/kernel of a"):
        foreign_tensors(given.tensors, card=given.card, column=GOOGLE)
    given = checkpoint("BertFeatureTagger")
    for column in (GOOGLE, HUGGING_FACE, KERAS_HUB):
        with pytest.raises(InputError, match=r"has no place for tagger/layer_mix/layer_logits of"):
            foreign_tensors(given.tensors, card=given.card, column=column)


def test_a_config_of_another_size_is_told(checkpoint):
    given = checkpoint("BertEncoder")
    deeper = dataclasses.replace(
        given.card, config=dataclasses.replace(given.card.config, num_layers=3)
    )
    foreign = foreign_tensors(given.tensors, card=given.card, column=GOOGLE)
    with pytest.raises(InputError, match=r"of 3 layers .*layer_2/attention/self/query/kernel is"):
        translated(foreign, card=deeper, column=GOOGLE)

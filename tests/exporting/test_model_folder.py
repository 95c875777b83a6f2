import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.checkpoints.pretrained import save_model
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.errors import InputError
from bert_keras.exporting import model_folder
from bert_keras.exporting.export import export
from bert_keras.models import (
    BertClassifier,
    BertEncoder,
    BertFeatureTagger,
    BertMultipleChoice,
    BertPretrainer,
    BertQuestionAnswering,
    BertSentenceEncoder,
    BertTokenClassifier,
)
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

TOKENIZER = WordPieceTokenizer(Vocabulary((*SPECIAL_TOKENS, "no", "yes", "x")))
CONFIG = BertConfig(vocab_size=8, hidden_size=8, num_layers=1, num_heads=2, max_positions=16)


@pytest.fixture
def foreign(tmp_path):
    keras.utils.set_random_seed(1)
    model = BertClassifier(CONFIG, num_labels=2)
    model.save_pretrained(tmp_path / "huggingface", format="huggingface", tokenizer=TOKENIZER)
    return tmp_path / "huggingface"


def test_a_foreign_classifier_is_exported(tmp_path, foreign, not_verified):
    written = export(foreign, tmp_path / "name" / "1", num_texts=2)
    signature = tf.saved_model.load(str(written)).signatures["serving_default"]
    assert set(signature.structured_input_signature[1]) == {"text", "text_pair"}
    outputs = signature(text=tf.constant(["yes"]), text_pair=tf.constant(["yes"]))
    assert outputs["labels"].numpy().tolist() == [[b"LABEL_0", b"LABEL_1"]]


def test_a_foreign_classifier_takes_one_text_by_default(tmp_path, foreign, monkeypatch):
    monkeypatch.setattr(
        model_folder, "write_saved_model", lambda *_, make, **__: make.keywords["num_texts"]
    )
    assert export(foreign, tmp_path / "name" / "1") == 1


@pytest.mark.slow
def test_a_regression_of_windows_is_exported_as_it_was_trained(tmp_path, assert_frozen):
    keras.utils.set_random_seed(1)
    metadata = ModelMetadata(
        model="BertClassifier",
        config=CONFIG,
        lowercase=True,
        max_length=8,
        labels=("stars",),
        text_columns=("review",),
        problem_type="regression",
        task={"name": "regression", "long_texts": "max", "stride": 4},
    )
    model = BertClassifier.from_metadata(metadata)
    save_model(model, tmp_path / "model", metadata=metadata, vocabulary=TOKENIZER.vocabulary)
    written = export(tmp_path / "model", tmp_path / "name" / "1")
    assert_frozen("regression_of_windows", written)
    signature = tf.saved_model.load(str(written)).signatures["serving_default"]
    outputs = signature(text=tf.constant(["yes", "no " * 6 + "yes " * 3]))
    windows = ["yes", "no " * 6, "no no yes yes yes"]  # 6 tokens long, 4 tokens apart
    ids = TOKENIZER.ids_batch(windows)
    scores = model(pack(ids, vocabulary=TOKENIZER.vocabulary, max_length=8)).numpy()[:, 0]
    assert list(outputs) == ["score"]
    expected = [scores[0], max(scores[1:])]
    np.testing.assert_allclose(outputs["score"].numpy(), expected, atol=1e-5)


@pytest.mark.slow  # the other tests of a head run its export in their own process
@pytest.mark.parametrize(
    ("kind", "outputs"),
    [
        (BertClassifier, {"label", "labels", "probabilities"}),
        (BertEncoder, {"embedding", "pooled"}),
        (BertSentenceEncoder, {"embedding"}),
        (BertMultipleChoice, {"choice", "probabilities"}),
        (BertPretrainer, {"pieces", "probabilities"}),
        (BertQuestionAnswering, {"answer", "start", "end", "score", "no_answer_score"}),
        (BertTokenClassifier, {"entities", "starts", "ends", "labels", "scores"}),
    ],
)
def test_every_head_is_verified_in_a_fresh_process(
    tmp_path, verified_in_fresh_process, kind, outputs
):
    keras.utils.set_random_seed(1)
    config = dataclasses.replace(CONFIG, max_positions=128)  # space for a question and a passage
    model = kind(
        config, **({"num_labels": 3} if kind in (BertClassifier, BertTokenClassifier) else {})
    )
    model.save_pretrained(tmp_path / "model", tokenizer=TOKENIZER)
    written = export(tmp_path / "model", tmp_path / "name" / "1")
    signatures = tf.saved_model.load(str(written)).signatures
    assert set(signatures["serving_default"].structured_outputs) == outputs
    assert {"tensors", "examples"} <= set(signatures)


def test_a_model_in_memory_is_exported(tmp_path, not_verified):
    model = BertClassifier(CONFIG, num_labels=2)
    folder = tmp_path / "name" / "1"
    with pytest.raises(InputError, match="the model has no vocabulary; give its tokenizer: token"):
        model.export(folder)
    with pytest.raises(InputError, match="labels has 1 name; expected 2, the number of labels"):
        model.export(folder, tokenizer=TOKENIZER, labels=["no"])
    model.export(folder, tokenizer=TOKENIZER, labels=["no", "yes"], max_length=8)
    model.save_pretrained(tmp_path / "model", tokenizer=TOKENIZER, labels=["no", "yes"])
    export(tmp_path / "model", tmp_path / "name" / "2", max_length=8)
    texts, responses = tf.constant(["yes", "no x" * 9]), []
    for version in ("1", "2"):
        signature = tf.saved_model.load(str(tmp_path / "name" / version)).signatures[
            "serving_default"
        ]
        responses.append(signature(text=texts))
    for name, array in responses[0].items():
        np.testing.assert_array_equal(array, responses[1][name], name)
    assert responses[0]["labels"].numpy().tolist() == [[b"no", b"yes"]] * 2


def test_models_that_cannot_be_exported_are_refused(tmp_path):
    with pytest.raises(InputError, match="tokenizer and labels are for a model in memory; a model"):
        export(tmp_path / "tagger", tmp_path / "name" / "1", tokenizer=TOKENIZER)
    with pytest.raises(InputError, match="no effect without a variant; leave them out or choose"):
        export(tmp_path / "tagger", tmp_path / "name" / "1", data="dev.tsv")
    with pytest.raises(InputError, match="the variant int8 needs data, labelled examples"):
        BertEncoder(CONFIG).export(tmp_path / "1", tokenizer=TOKENIZER, variant="int8")
    tagger = BertFeatureTagger(CONFIG, num_labels=2, layers="last", lstm_units=2)
    tagger.save_pretrained(tmp_path / "tagger", tokenizer=TOKENIZER)
    with pytest.raises(InputError, match="is a BertFeatureTagger; expected one of BertClassif"):
        export(tmp_path / "tagger", tmp_path / "name" / "1")
    BertEncoder(CONFIG).save_pretrained(tmp_path / "encoder", tokenizer=TOKENIZER)
    with pytest.raises(InputError, match="a BertEncoder; only a classifier takes"):
        export(tmp_path / "encoder", tmp_path / "name" / "1", num_texts=2)
    BertClassifier(CONFIG, num_labels=2).save_pretrained(tmp_path / "no-vocabulary")
    with pytest.raises(
        InputError,
        match=r"no-vocabulary has no vocabulary; add the vocab.txt or tokenizer.json",
    ):
        export(tmp_path / "no-vocabulary", tmp_path / "name" / "1")

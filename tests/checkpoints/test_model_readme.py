"""The README.md of a model's folder."""

import dataclasses

import pytest

from bert_keras.checkpoints.huggingface.rules import read_rules
from bert_keras.checkpoints.metadata import ModelMetadata
from bert_keras.checkpoints.model_readme import model_readme
from bert_keras.config import BertConfig
from bert_keras.text.fast_tokenizer import rules_vocabulary
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

CONFIG = BertConfig(vocab_size=30_522, num_layers=2, hidden_size=128, num_heads=2)
METADATA = ModelMetadata(
    model="BertClassifier",
    config=CONFIG,
    lowercase=True,
    max_length=64,
    text_columns=("title", "body"),
    labels=("sport", "trade"),
)

MODERNBERT = {
    **{"norm_position": "pre", "position_kind": "rotary", "is_gated": True, "num_segments": 0},
    "pooler_activation": "",
}


def text(
    metadata: ModelMetadata = METADATA,
    *,
    format: str = "bert-keras",
    vocabulary: Vocabulary = Vocabulary(SPECIAL_TOKENS),  # noqa: B008 - frozen
    **sections,
) -> str:
    return model_readme(
        metadata, vocabulary=vocabulary, name="topics", format=format, sections=sections
    )


def test_the_readme_states_the_model_its_training_and_how_to_load_it():
    readme = text(Recipe={"num_epochs": 3}, Scores={"accuracy": 0.9})
    for line in (
        "# topics",
        "| layers, hidden size, attention heads | 2, 128, 2 |",
        "| vocabulary | 30,522 tokens, lower case |",
        "| texts | title, body |",
        "| labels | sport, trade |",
        "## Recipe",
        "| num_epochs | 3 |",
        "| accuracy | 0.9 |",
        'model = BertClassifier.from_pretrained("topics")',
        "In transformers, after `bert-keras convert topics topics-huggingface --to huggingface`:",
        'model = BertForSequenceClassification.from_pretrained("topics-huggingface")',
        "In KerasHub, after `bert-keras convert topics topics-keras-hub --to keras-hub`:",
        'model = BertTextClassifier.from_preset("topics-keras-hub")',
    ):
        assert f"\n{line}\n" in f"\n{readme}", line
    assert "\n\n\n" not in readme


def test_a_folder_of_hugging_face_needs_no_conversion():
    readme = text(format="huggingface")
    assert "\nIn transformers:\n" in readme
    assert 'BertForSequenceClassification.from_pretrained("topics")' in readme


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            {"num_segments": 0, "pooler_activation": "relu"},
            ["DistilBertForSequenceClassification", "import DistilBertTextClassifier"],
        ),
        (
            {"num_lstm_layers": 1, "is_causal": True},
            ["transformers has no such model.", "KerasHub has no such model."],
        ),
        (  # transformers counts positions from the padding id 1, KerasHub's tokenizer is BPE
            {"position_offset": 2, "num_segments": 1, "layer_norm_epsilon": 1e-5},
            ["transformers has no such model.", "KerasHub has no such model."],
        ),
        (
            {**MODERNBERT, "has_biases": False, "has_head_norm": True},
            ["import ModernBertForSequenceClassification", "KerasHub has no such model."],
        ),
        (
            {"has_pooler": False},
            ["import BertForSequenceClassification", "KerasHub has no such model."],
        ),
    ],
)
def test_relatives_and_models_of_no_family(changes, lines):
    readme = text(dataclasses.replace(METADATA, config=dataclasses.replace(CONFIG, **changes)))
    for line in lines:
        assert line in readme


def test_a_roberta_with_wordpiece_and_one_with_sentencepiece(subwords):
    """As those of KLUE and XLM-RoBERTa: each command in the text works, see test_remedies.py."""
    changes = {"position_offset": 2, "num_segments": 1, "layer_norm_epsilon": 1e-5}
    metadata = dataclasses.replace(METADATA, config=dataclasses.replace(CONFIG, **changes))
    klue = Vocabulary(("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"))
    xlm_roberta = rules_vocabulary(read_rules(subwords["xlm-roberta"], {}))
    for vocabulary, prefix in ((klue, "Roberta"), (xlm_roberta, "XLMRoberta")):
        readme = text(metadata, vocabulary=vocabulary)
        assert f"import {prefix}ForSequenceClassification" in readme
        assert "KerasHub has no such model." in readme

"""Models and texts whose pages of `bert-keras inspect` are tested."""

import keras
import pytest

from bert_keras.checkpoints.pretrained import save_model
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.models import (
    BertClassifier,
    BertEncoder,
    BertMaskedLM,
    BertPretrainer,
    BertSentenceEncoder,
)
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

WORDS = ("the", "bank", "of", "a", "river", "lend", "##s", "##er", "money", "muddy", *".,<>/'b")
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS))
TOKENIZER = WordPieceTokenizer(VOCABULARY)
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY),
    hidden_size=24,
    num_layers=2,
    num_heads=4,
    max_positions=200,
    initializer_stddev=0.4,
)
MODELS = {
    "encoder": BertEncoder,
    "sentence-encoder": BertSentenceEncoder,
    "pretrainer": BertPretrainer,
    "masked-lm": BertMaskedLM,
    "classifier": lambda config: BertClassifier(config, num_labels=2),
}
TEXT = "The bank of the river lends."
SENTENCES = ["A muddy bank.", "The bank lends money, the bank of a lender.", "Bank of a river."]


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Folders of models by name, and the models."""
    folder, models = tmp_path_factory.mktemp("models"), {}
    keras.utils.set_random_seed(1)
    for name, make in MODELS.items():
        model = make(CONFIG)
        if not model.built:
            model.build()
        metadata = ModelMetadata(
            model=type(model).__name__,
            config=CONFIG,
            lowercase=True,
            max_length=190,
            labels=("no", "yes") if name == "classifier" else (),
        )
        save_model(model, folder / name, metadata=metadata, vocabulary=VOCABULARY)
        models[name] = folder / name, model
    return models

"""Fine-tuning of BERT's relatives on text pairs."""

import dataclasses

import keras
import pytest

from bert_keras.checkpoints.huggingface.rules import read_rules
from bert_keras.config import BertConfig
from bert_keras.downstream.catalog import named_task
from bert_keras.models import MODELS, load_model
from bert_keras.runs.finetune import finetune
from bert_keras.runs.hyperparameters import FinetuneRecipe
from bert_keras.text.fast_tokenizer import rules_vocabulary, tokenizer_of
from bert_keras.text.packing import pack
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

CHANGES = {
    "distilbert": {"num_segments": 0, "pooler_activation": "relu", "has_pooler": False},
    "albert": {"embedding_size": 12, "shares_layers": True, "num_layers": 2},
    "roberta": {"position_offset": 2, "num_segments": 1},
    "modernbert": {
        **{"norm_position": "pre", "position_kind": "rotary", "is_gated": True, "num_segments": 0},
        **{"has_biases": False, "local_window": 4, "num_layers": 2, "has_pooler": False},
        **{"pooler_activation": "", "has_head_norm": True},
    },
    "electra": {
        **{"embedding_size": 12, "has_pooler": False},
        **{"pooler_activation": "gelu", "masked_lm_activation": "gelu"},
    },
}
RECIPE = FinetuneRecipe(batch_size=4, num_epochs=12, learning_rate=5e-3, logs_per_epoch=1)


@pytest.fixture
def start(subwords, tmp_path):
    """A function that writes an untrained encoder in the format of Hugging Face."""

    def make(family: str):
        vocabulary = Vocabulary((*SPECIAL_TOKENS, "good", "bad", "film"))
        if family in subwords:
            vocabulary = rules_vocabulary(read_rules(subwords[family], {}))
        sizes = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_positions": 24}
        sizes |= {"initializer_stddev": 0.3, "hidden_dropout_rate": 0.0}
        config = BertConfig(vocab_size=len(vocabulary), **{**sizes, **CHANGES[family]})
        keras.utils.set_random_seed(1)
        tokenizer = tokenizer_of(vocabulary, lowercase=True)
        encoder = MODELS["BertEncoder"](config)
        return encoder.save_pretrained(
            tmp_path / "start", format="huggingface", tokenizer=tokenizer
        )

    return make


@pytest.mark.slow
@pytest.mark.parametrize("family", [*CHANGES])
def test_a_related_model_learns_text_pairs(start, tmp_path, family):
    rows = ["one\ttwo\tlabel", *["good film\tfilm\t1", "bad film\tfilm\t0"] * 12]
    (tmp_path / "rows.tsv").write_text("\n".join(rows) + "\n")
    task = dataclasses.replace(
        named_task("classification"), max_length=24, text_columns=("one", "two")
    )
    finetune(
        task,
        RECIPE,
        pretrained=start(family),
        data={"train": str(tmp_path / "rows.tsv"), "dev": str(tmp_path / "rows.tsv")},
        output=tmp_path / "run",
    )
    model = load_model(tmp_path / "run" / "model")
    ids = [model.tokenizer.ids_batch(texts) for texts in (["good film", "bad film"], ["film"] * 2)]
    inputs = pack(*ids, vocabulary=model.tokenizer.vocabulary, max_length=24)
    predictions = model.predict_on_batch(inputs).argmax(axis=1)
    assert [model.metadata.labels[number] for number in predictions] == ["1", "0"]
    names = {name for name in CHANGES[family] if name != "has_pooler"}
    assert all(getattr(model.config, name) == CHANGES[family][name] for name in names)

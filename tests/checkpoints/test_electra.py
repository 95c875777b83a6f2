"""Folders in the layout of ELECTRA's published checkpoints, English and Korean."""

import dataclasses
import json
import re

import numpy as np
import pytest

from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.huggingface.config import read_config
from bert_keras.errors import InputError
from bert_keras.families import ELECTRA
from bert_keras.models import BertClassifier, load_model
from bert_keras.presets import preset
from bert_keras.text.packing import pack

# The values of google/electra-small-discriminator, which monologg/koelectra-small-v3 shares.
SMALL = {
    "architectures": ["ElectraForPreTraining"],
    "attention_probs_dropout_prob": 0.1,
    "embedding_size": 128,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 256,
    "initializer_range": 0.02,
    "intermediate_size": 1024,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "electra",
    "num_attention_heads": 4,
    "num_hidden_layers": 12,
    "pad_token_id": 0,
    "summary_activation": "gelu",
    "summary_last_dropout": 0.1,
    "summary_type": "first",
    "summary_use_proj": True,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
BASE = SMALL | {
    **{"embedding_size": 768, "hidden_size": 768, "intermediate_size": 3072},
    **{"num_attention_heads": 12},
}
# google/electra-base-generator: the embeddings of the discriminator, a third of its hidden size.
GENERATOR = SMALL | {"architectures": ["ElectraForMaskedLM"], "embedding_size": 768}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (SMALL, preset("electra-small")),
        (BASE, preset("electra-base")),
        (GENERATOR, preset("electra-small", embedding_size=768)),
        (SMALL | {"vocab_size": 35000}, preset("electra-small", vocab_size=35_000)),
        (BASE | {"vocab_size": 54343}, preset("electra-base", vocab_size=54_343)),
        ({"model_type": "electra"}, preset("electra-small")),
    ],
)
def test_values_of_the_published_files(values, expected):
    assert read_config(values, ELECTRA) == dataclasses.replace(expected, has_pooler=True)


def test_other_summaries_are_refused():
    with pytest.raises(InputError, match='summary_type is "mean"; expected "first", the only'):
        read_config(SMALL | {"summary_type": "mean"}, ELECTRA)


def test_a_projection_of_equal_sizes_has_no_family(checkpoint, tmp_path):
    changes = {"pooler_activation": "gelu", "masked_lm_activation": "gelu", "embedding_size": 8}
    with pytest.raises(InputError, match="huggingface cannot store an encoder of no known kind"):
        write_checkpoint(
            checkpoint("BertMaskedLM", **changes), tmp_path / "it", format="huggingface"
        )


def test_only_electra_has_a_discriminator(checkpoint, tmp_path):
    with pytest.raises(InputError, match="cannot store replaced_token/transform/kernel of a BertD"):
        write_checkpoint(checkpoint("BertDiscriminator"), tmp_path / "it", format="huggingface")


TEXTS = ["아버지가 방에 들어가신다.", "영화 진짜 재밌다ㅋㅋ 👍", "Café가 2층에 있어요", "漢字!"]


@pytest.mark.extra
@pytest.mark.parametrize(
    ("name", "vocab_size", "settings"),
    [
        ("koelectra", 35_000, {"do_lower_case": False, "model_max_length": 512}),
        (
            "kcelectra",
            54_343,
            {
                **{"do_lower_case": False, "do_basic_tokenize": True, "never_split": None},
                **{"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]"},
                **{"cls_token": "[CLS]", "mask_token": "[MASK]", "strip_accents": None},
                **{"tokenize_chinese_chars": True, "tokenizer_class": "BertTokenizer"},
            },
        ),
    ],
)
def test_a_korean_folder_equals_transformers(tmp_path, name, vocab_size, settings):
    """Of the real vocabulary sizes; the tokens are the syllables of the texts."""
    torch = pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
    transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
    size = {"embedding_size": 8, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2}
    values = BASE | size | {"vocab_size": vocab_size, "num_attention_heads": 2}
    if name == "kcelectra":
        values["tokenizer_class"] = "BertTokenizer"
    folder = tmp_path / name
    torch.manual_seed(0)
    theirs = transformers.ElectraForPreTraining(transformers.ElectraConfig(**values)).eval()
    folder.mkdir()
    torch.save(theirs.state_dict(), folder / "pytorch_model.bin")
    (folder / "config.json").write_text(json.dumps(values))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    characters = sorted(set(re.sub(r"\s", "", "".join(TEXTS))))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters]
    tokens += [f"##{character}" for character in characters if character.isalnum()]
    tokens += [f"[unused{index}]" for index in range(vocab_size - len(tokens))]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", "utf-8")

    ours = load_model(folder)
    assert type(ours).__name__ == "BertDiscriminator"
    tokenizer = transformers.ElectraTokenizer.from_pretrained(folder)
    ids = ours.tokenizer.ids_batch(TEXTS)
    inputs = pack(ids, vocabulary=ours.tokenizer.vocabulary, max_length=40)
    encoded = tokenizer(TEXTS, padding=True, return_tensors="pt")
    np.testing.assert_array_equal(inputs["input_ids"], encoded["input_ids"])
    assert 1 not in inputs["input_ids"]  # no [UNK]
    with torch.no_grad():
        expected = theirs(**encoded).logits.numpy()
    actual = ours.predict_on_batch(inputs)["replaced_token"]
    is_token = inputs["input_mask"] == 1
    np.testing.assert_allclose(actual[is_token], expected[is_token], rtol=1e-5, atol=1e-6)

    classifier = BertClassifier.from_pretrained(
        folder, labels=("0", "1"), new=("pooler", "classification")
    )
    classifier.save_pretrained(tmp_path / "classifier", format="huggingface")
    again = open_checkpoint(tmp_path / "classifier")
    assert (again.metadata.lowercase, again.metadata.config.vocab_size) == (False, vocab_size)
    name = "electra.embeddings.word_embeddings.weight"
    classifier = transformers.ElectraForSequenceClassification.from_pretrained(
        tmp_path / "classifier"
    )
    assert torch.equal(classifier.state_dict()[name], theirs.state_dict()[name])

"""Random models of transformers with Korean and multilingual tokenizers: texts to outputs and back.

The layouts are those of klue/bert-base, klue/roberta-base, bert-base-multilingual-cased,
kobert-base-v1 and xlm-roberta-base.
"""

import numpy as np
import our_side
import pytest
from differences import PRECISION, at, difference, gradient_differences

from bert_keras.checkpoints.huggingface.config import CLASSES
from bert_keras.models import load_model
from bert_keras.text.packing import pack
from tests.multilingual_texts import DECOMPOSED, SENTENCES

pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
pytestmark = [
    pytest.mark.extra,
    pytest.mark.filterwarnings("ignore:You are using a softmax over axis -1"),
]

import their_side  # noqa: E402

PREFIXES = {"klue-bert": "Bert", "klue-roberta": "Roberta", "kobert": "Bert"}
PREFIXES |= {"multilingual-bert": "Bert", "xlm-roberta": "XLMRoberta"}
HEADS = [name for name in CLASSES if name != "BertPretrainer"]
CASES = [(kind, name) for kind in ("klue-roberta", "xlm-roberta") for name in HEADS]
CASES += [(kind, "BertClassifier") for kind in ("klue-bert", "multilingual-bert", "kobert")]
MAX_LENGTH = 160  # no pair is cut
FIRSTS, SECONDS = [*SENTENCES, *DECOMPOSED], [*reversed(SENTENCES), *SENTENCES]


@pytest.fixture
def published(subwords, vocabulary_of, tmp_path):
    """Returns a function that writes a folder as it was published, with random weights."""

    def make(kind: str, model: str):
        folder, prefix = tmp_path / "published", PREFIXES[kind]
        vocabulary = vocabulary_of(kind)
        if kind not in subwords:
            tokenizer = transformers.BertTokenizer(
                dict(vocabulary.ids), do_lower_case=False, model_max_length=512
            )
        elif kind == "xlm-roberta":
            tokenizer = transformers.XLMRobertaTokenizerFast.from_pretrained(subwords[kind])
        else:
            folder.mkdir()
            file = subwords[kind] / "spiece.model"
            (folder / file.name).write_bytes(file.read_bytes())
            tokenizer = None
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        is_roberta = prefix != "Bert"
        config = getattr(transformers, f"{prefix}Config")(
            vocab_size=len(vocabulary),
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=40,
            max_position_embeddings=MAX_LENGTH + 2 * is_roberta,
            type_vocab_size=1 if is_roberta else 2,
            layer_norm_eps=1e-5 if is_roberta else 1e-12,
            pad_token_id=vocabulary.pad_id,
            initializer_range=0.08,
            num_labels=their_side.NUM_LABELS.get(model, 2),
            attn_implementation="eager",
            tokenizer_class=None if tokenizer is None else type(tokenizer).__name__,
        )
        transformers.set_seed(1)
        theirs = getattr(transformers, f"{prefix}{CLASSES[model]}")(config).eval()
        their_side._perturb(theirs.parameters(), 0.08)
        theirs.save_pretrained(folder)
        return folder, theirs, tokenizer

    return make


def batch_of(model):
    """Returns packed pairs of texts, as the tokenizer of the model has them."""
    ids = map(model.tokenizer.ids_batch, (FIRSTS, SECONDS))
    return pack(*ids, vocabulary=model.tokenizer.vocabulary, max_length=MAX_LENGTH)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_texts_to_outputs_and_back(published, tmp_path, kind, name):
    folder, theirs, tokenizer = published(kind, name)
    model = load_model(folder)
    assert type(model).__name__ == name
    batch = batch_of(model)
    if tokenizer is not None:
        encoded = tokenizer(FIRSTS, SECONDS, padding=True)
        assert batch["input_ids"].tolist() == encoded["input_ids"]
        assert batch["input_mask"].tolist() == encoded["attention_mask"]
    is_compared_BT = batch["input_mask"].astype(bool)
    reference = dict(batch)
    if theirs.config.type_vocab_size == 1:
        reference["segment_ids"] = np.zeros_like(batch["segment_ids"])
    batch["masked_lm_positions"] = np.tile(
        np.arange(batch["input_ids"].shape[1], dtype="int32"), (len(FIRSTS), 1)
    )
    if name == "BertMultipleChoice":
        batch, reference = (our_side.choices(each, num_choices=2) for each in (batch, reference))
    expected = their_side.outputs(theirs, reference)
    actual = our_side.outputs(model, batch)
    assert actual.keys() == expected.keys()
    for output in expected:
        apart = difference(
            at(is_compared_BT, output, actual[output]), at(is_compared_BT, output, expected[output])
        )
        assert apart.relative <= PRECISION and apart.margin <= 1, f"{output}: {apart}"

    model.save_pretrained(tmp_path / "ours", format="huggingface")
    again, info = getattr(
        transformers, f"AutoModel{CLASSES[name].removeprefix('Model')}"
    ).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert type(again) is type(theirs) and not any(info.values()), info
    weights = theirs.state_dict()
    assert again.state_dict().keys() == weights.keys()
    assert all((weight == weights[key]).all() for key, weight in again.state_dict().items())
    written = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    encoded = written(FIRSTS, SECONDS, padding=True)
    assert (
        encoded["input_ids"]
        == pack(
            *map(model.tokenizer.ids_batch, (FIRSTS, SECONDS)),
            vocabulary=model.tokenizer.vocabulary,
            max_length=MAX_LENGTH,
        )["input_ids"].tolist()
    )
    assert ("token_type_ids" in encoded) == (theirs.config.type_vocab_size == 2)
    with_text = dict(written(FIRSTS[0], SECONDS[0], return_tensors="pt"))
    if name != "BertMultipleChoice":
        assert again(**with_text)  # the files fit together


@pytest.mark.parametrize("kind", PREFIXES)
def test_gradients_of_the_masked_lm(published, kind):
    folder, theirs, _ = published(kind, "BertMaskedLM")
    model = load_model(folder)
    batch, random = batch_of(model), np.random.default_rng(1)
    shape = (len(FIRSTS), 5)
    batch |= {
        "masked_lm_positions": np.sort(random.integers(0, 5, shape, dtype="int32"), axis=1),
        "masked_lm_ids": random.integers(5, theirs.config.vocab_size, shape, dtype="int32"),
        "masked_lm_weights": np.ones(shape, "float32"),
        "next_sentence_labels": np.zeros((len(FIRSTS), 1), "int32"),
    }
    loss, gradients = our_side.loss_and_gradients(model, batch)
    if theirs.config.type_vocab_size == 1:
        batch["segment_ids"] = np.zeros_like(batch["segment_ids"])
    their_loss, expected = their_side.loss_and_gradients(theirs, batch, metadata=model.metadata)
    assert loss == pytest.approx(their_loss, rel=1e-5)
    assert gradients.keys() == expected.keys()
    for name, apart in gradient_differences(gradients, expected).items():
        assert apart.relative <= 1e-4, f"{name}: {apart}"

"""Random models of transformers with Korean and multilingual tokenizers: texts to outputs and back.

The folders have the files of klue/bert-base, klue/roberta-base, bert-base-multilingual-cased,
kobert-base-v1, xlm-roberta-base, multilingual-e5, mpnet-base and deberta-v3-base. The small
multilingual-e5 is a BERT with more rows than XLM-RoBERTa's tokenizer has tokens.
"""

import json
import shutil

import numpy as np
import our_side
import pytest
from differences import PRECISION, at, difference

from bert_keras import BertSentenceEncoder
from bert_keras.config import BertConfig, EmbeddingConfig
from bert_keras.kinds.known import KINDS
from bert_keras.models.loading import load_model
from bert_keras.text.packing import pack
from tests.multilingual_texts import DECOMPOSED, SENTENCES
from tests.relatives import CHANGES

torch = pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
pytestmark = [
    pytest.mark.extra,
    pytest.mark.filterwarnings("ignore:You are using a softmax over axis -1"),
]

import their_side  # noqa: E402

CLASSES = {name: kind.transformers_class for name, kind in KINDS.items()}
HEADS = [name for name, end in CLASSES.items() if end and name != "BertPretrainer"]
CASES = [(kind, name) for kind in ("klue-roberta", "xlm-roberta") for name in HEADS]
CASES += [(kind, "BertClassifier") for kind in ("klue-bert", "multilingual-bert", "kobert")]
CASES += [(kind, "BertClassifier") for kind in ("mpnet", "deberta-v2")]
MAX_LENGTH = 160  # no pair is cut
FIRSTS, SECONDS = [*SENTENCES, *DECOMPOSED], [*reversed(SENTENCES), *SENTENCES]


@pytest.fixture
def published(subwords, vocabulary_of, tmp_path):
    """Returns a function that writes a folder as it was published, with random weights."""

    def make(kind: str, model: str, *, num_extra_rows: int = 0, **changes):
        folder, vocabulary = tmp_path / "published", vocabulary_of(kind)
        if kind not in subwords:
            name = f"{'MPNet' if kind == 'mpnet' else 'Bert'}Tokenizer"
            tokenizer = getattr(transformers, name)(
                dict(vocabulary.ids), do_lower_case=False, model_max_length=512
            )
        elif kind == "xlm-roberta":
            tokenizer = transformers.XLMRobertaTokenizerFast.from_pretrained(subwords[kind])
        else:
            shutil.copytree(subwords[kind], folder)
            tokenizer = None
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        config = BertConfig(
            vocab_size=len(vocabulary) + num_extra_rows,
            hidden_size=24,
            num_layers=2,
            num_heads=2,
            intermediate_size=40,
            max_positions=MAX_LENGTH,
            initializer_stddev=0.08,
            **{**CHANGES[kind], **changes},
        )
        theirs = their_side.random_reference(model, config, vocabulary=vocabulary)
        theirs.config.tokenizer_class = tokenizer and type(tokenizer).__name__
        theirs.save_pretrained(folder)
        return folder, theirs, tokenizer

    return make


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_texts_to_outputs_and_back(published, tmp_path, kind, name):
    folder, theirs, tokenizer = published(kind, name)
    model = load_model(folder)
    assert type(model).__name__ == name
    tokens = map(model.tokenizer.ids_batch, (FIRSTS, SECONDS))
    batch = pack(*tokens, vocabulary=model.tokenizer.vocabulary, max_length=MAX_LENGTH)
    ids, is_compared_BT = batch["input_ids"].tolist(), batch["input_mask"].astype(bool)
    if tokenizer is not None:
        encoded = tokenizer(FIRSTS, SECONDS, padding=True)
        assert ids == encoded["input_ids"]
        assert batch["input_mask"].tolist() == encoded["attention_mask"]
    length, reference = batch["input_ids"].shape[1], dict(batch)
    if getattr(theirs.config, "type_vocab_size", 1) == 1:
        reference["segment_ids"] = np.zeros_like(batch["segment_ids"])
    batch["masked_lm_positions"] = np.tile(np.arange(length, dtype="int32"), (len(FIRSTS), 1))
    if name == "BertMultipleChoice":
        batch, reference = (our_side.choices(each, num_choices=2) for each in (batch, reference))
    expected = their_side.outputs(theirs, reference)
    actual = our_side.outputs(model, batch)
    assert actual.keys() == expected.keys()
    for output in expected:
        pair = (at(is_compared_BT, output, each[output]) for each in (actual, expected))
        apart = difference(*pair)
        assert apart.relative <= PRECISION and apart.margin <= 1, f"{output}: {apart}"

    model.save_pretrained(tmp_path / "ours", format="huggingface")
    auto = getattr(transformers, f"AutoModel{CLASSES[name].removeprefix('Model')}")
    again, info = auto.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert type(again) is type(theirs) and not any(info.values()), info
    weights = theirs.state_dict()
    assert again.state_dict().keys() == weights.keys()
    assert all((weight == weights[key]).all() for key, weight in again.state_dict().items())
    written = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    encoded = written(FIRSTS, SECONDS, padding=True)
    assert encoded["input_ids"] == ids
    num_segments = getattr(theirs.config, "type_vocab_size", 0)
    assert ("token_type_ids" in encoded) == (num_segments == 2)
    if name != "BertMultipleChoice":
        assert again(**written(FIRSTS[0], SECONDS[0], return_tensors="pt"))


@pytest.mark.parametrize("changes", [{}, {"position_offset": 0, "num_segments": 2}])
def test_embeddings_of_multilingual_e5(published, changes):
    package = pytest.importorskip("sentence_transformers", reason='needs "bert-keras[parity]"')
    rows = 35 if changes else 0  # of the small size
    folder, theirs, tokenizer = published(
        "xlm-roberta", "BertEncoder", num_extra_rows=rows, **changes
    )
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"{package.__name__}.models.{kinds[path]}"}
        for n, path in enumerate(kinds)
    ]
    for file, values in {
        "modules.json": modules,
        "1_Pooling/config.json": {"word_embedding_dimension": 24, "pooling_mode_mean_tokens": True},
        "2_Normalize/config.json": {},
        "sentence_bert_config.json": {"max_seq_length": 128, "do_lower_case": False},
    }.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(json.dumps(values))
    (folder / "sparse_linear.pt").write_bytes(b"")  # as in bge-m3
    ours = BertSentenceEncoder.from_pretrained(folder, pad_vocabulary=rows > 0)
    assert "sparse_linear.pt" in ours.load_report.unused
    assert (ours.embedding, ours.metadata.max_length) == (EmbeddingConfig(), 128)
    reference = package.SentenceTransformer(str(folder), device="cpu")
    prompted = ["query: " + text for text in FIRSTS]
    encoded = tokenizer(prompted, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = theirs(encoded["input_ids"], encoded["attention_mask"]).last_hidden_state
    mask = encoded["attention_mask"][..., None]
    expected = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1)).numpy()
    assert np.ptp(expected @ expected.T) > 0.05
    actual = ours.encode(FIRSTS, prompt="query: ")
    for each in (expected, reference.encode(prompted)):
        assert np.abs(actual - each).max() <= 1e-6

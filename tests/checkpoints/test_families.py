"""BERT's relatives in Hugging Face's folders and ours: there, back, refused where they must be."""

import dataclasses
import json
import shutil

import pytest
from safetensors.numpy import load_file, save_file

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.huggingface.config import transformers_classes
from bert_keras.checkpoints.huggingface.rules import read_rules
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.families import FAMILIES, family_of
from bert_keras.models import BertClassifier
from bert_keras.presets import PRESETS
from bert_keras.text.fast_tokenizer import is_uncased, rules_vocabulary
from bert_keras.text.packing import pack

CHANGES = {
    "distilbert": {"num_segments": 0, "pooler_activation": "relu"},
    "albert": {"embedding_size": 6, "shares_layers": True, "num_layers": 3},
    "roberta": {"position_offset": 2, "num_segments": 1, "layer_norm_epsilon": 1e-5},
    "modernbert": {
        **{"norm_position": "pre", "position_kind": "rotary", "is_gated": True, "num_segments": 0},
        **{"has_biases": False, "rotary_base": 500.0, "local_rotary_base": 20.0},
        **{"local_window": 6, "global_every": 2, "num_layers": 3},
        **{"pooler_activation": "", "has_head_norm": True, "pooling": "mean"},
    },
    "electra": {
        **{"embedding_size": 6, "pooler_activation": "gelu", "masked_lm_activation": "gelu"},
    },
}
PAIRS = [
    (family, model)
    for family in CHANGES
    for model in transformers_classes(FAMILIES[family])
    if model != "BertPretrainer" or family == "albert"
]


@pytest.fixture
def small(checkpoint):
    """A maker of random checkpoints of a family, with a pooler where transformers has one."""

    def make(family: str, model: str, **changes):
        has_pooler = ARCHITECTURES[model].reads_pooled_output
        has_pooler |= model == "BertEncoder" and FAMILIES[family].has_pooler
        made = checkpoint(model, **{"has_pooler": has_pooler, **CHANGES[family], **changes})
        return dataclasses.replace(made, vocabulary=None)

    return make


def test_presets_belong_to_their_families():
    for name, config in PRESETS.items():
        kinds = [kind for kind in CHANGES if kind in name]
        expected = FAMILIES[kinds[0] if kinds else "bert"]
        assert family_of(config) is (None if name.startswith("modern-") else expected)
    assert family_of(BertConfig(shares_layers=True)) is None


@pytest.mark.parametrize(("family", "model"), PAIRS)
def test_native_to_huggingface_to_native_returns_the_same_files(small, tmp_path, family, model):
    original = small(family, model)
    assert family_of(original.metadata.config).kind == family
    write_checkpoint(original, tmp_path / "ours", format="bert-keras")
    assert write_checkpoint(original, tmp_path / "theirs", format="huggingface") == ()
    read = open_checkpoint(tmp_path / "theirs")
    assert (read.metadata, read.notes) == (original.metadata, ())
    write_checkpoint(read, tmp_path / "back", format="bert-keras")
    for name in ("bert_keras.json", "weights.safetensors"):
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / "ours" / name).read_bytes()


@pytest.mark.parametrize("family", CHANGES)
def test_a_new_classifier_on_a_pretrained_relative(small, tmp_path, family):
    write_checkpoint(small(family, "BertMaskedLM"), tmp_path / "it", format="huggingface")
    new = ("pooler", "classification")
    model = BertClassifier.from_pretrained(tmp_path / "it", labels=("no", "yes"), new=new)
    assert {name.split("/")[0] for name in model.load_report.unused} == {"masked_lm"}
    model.save_pretrained(tmp_path / "mine", format="huggingface")
    written = open_checkpoint(tmp_path / "mine")
    assert (written.metadata.labels, family_of(written.metadata.config).kind) == (
        ("no", "yes"),
        family,
    )


def test_a_missing_weight_has_its_transformers_name(small, tmp_path):
    write_checkpoint(small("distilbert", "BertEncoder"), tmp_path / "it", format="huggingface")
    path = tmp_path / "it" / "model.safetensors"
    weights = load_file(path)
    del weights["transformer.layer.1.attention.q_lin.weight"]
    save_file(weights, path)
    with pytest.raises(InputError, match=r"transformer\.layer\.1\.attention\.q_lin\.weight is mis"):
        open_checkpoint(tmp_path / "it")


def test_other_dropout_rates_of_heads_are_noted(small, tmp_path):
    write_checkpoint(small("distilbert", "BertClassifier"), tmp_path / "it", format="huggingface")
    path = tmp_path / "it" / "config.json"
    values = json.loads(path.read_text())
    assert values["seq_classif_dropout"] == values["dropout"] == 0.1
    path.write_text(json.dumps(values | {"seq_classif_dropout": 0.2}))
    (note,) = open_checkpoint(tmp_path / "it").notes
    assert note.startswith("config.json: seq_classif_dropout is 0.2; it has no effect, because")


@pytest.mark.parametrize("family", CHANGES)
def test_google_stores_no_relatives(small, tmp_path, family):
    original = small(family, "BertEncoder", has_pooler=True)
    with pytest.raises(InputError, match=f"google cannot store an encoder of the kind {family}"):
        write_checkpoint(original, tmp_path / "it", format="google")
    assert not (tmp_path / "it").exists()


def test_only_the_native_format_stores_an_encoder_without_family(checkpoint, tmp_path):
    original = checkpoint("BertMaskedLM", shares_layers=True)
    write_checkpoint(original, tmp_path / "ours", format="bert-keras")
    assert open_checkpoint(tmp_path / "ours").metadata == original.metadata
    with pytest.raises(InputError, match="huggingface cannot store an encoder of no known kind"):
        write_checkpoint(original, tmp_path / "theirs", format="huggingface")


@pytest.mark.parametrize("family", ["distilbert", "roberta"])
def test_families_without_next_sentence_refuse_a_pretrainer(small, tmp_path, family):
    original = small(family, "BertPretrainer")
    with pytest.raises(InputError, match="cannot store next_sentence/dense/kernel of a BertPre"):
        write_checkpoint(original, tmp_path / "it", format="huggingface")


@pytest.mark.extra
@pytest.mark.parametrize(("family", "model"), PAIRS)
def test_transformers_reads_our_files_and_we_read_its_files(small, tmp_path, family, model):
    pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
    transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
    transformers.logging.disable_progress_bar()
    original = small(family, model)
    write_checkpoint(original, tmp_path / "it", format="huggingface")
    name = transformers_classes(FAMILIES[family])[model]
    end = name.removeprefix(FAMILIES[family].class_prefix)
    auto = f"AutoModel{end.removeprefix('Model')}"
    theirs, info = getattr(transformers, auto).from_pretrained(
        tmp_path / "it", output_loading_info=True
    )
    assert type(theirs).__name__ == name
    assert not any(info.values()), info
    theirs.save_pretrained(tmp_path / "again")
    read = open_checkpoint(tmp_path / "again")
    assert (read.metadata, read.notes) == (original.metadata, ())
    for weight, tensor in original.tensors.items():
        assert read.tensors[weight].read().tobytes() == tensor.read().tobytes()


@pytest.fixture(params=["roberta", "albert"])
def with_text(request, small, subwords, tmp_path):
    """A folder as it was published, with the tokenizer's files of old; and what it holds."""
    vocabulary = rules_vocabulary(read_rules(subwords[request.param], {}))
    original = small(request.param, "BertClassifier", vocabulary=vocabulary)
    write_checkpoint(original, tmp_path / "published", format="huggingface")
    for file in subwords[request.param].iterdir():
        shutil.copy(file, tmp_path / "published")
    return tmp_path / "published", vocabulary


def test_published_tokenizer_files_are_written_as_tokenizer_json(with_text, tmp_path):
    folder, vocabulary = with_text
    read = open_checkpoint(folder)
    assert read.vocabulary == vocabulary
    assert read.metadata.lowercase == is_uncased(vocabulary) == read.metadata.config.shares_layers
    for format in ("bert-keras", "huggingface"):
        write_checkpoint(read, tmp_path / format, format=format)
        back = open_checkpoint(tmp_path / format)
        assert (back.metadata, back.vocabulary) == (read.metadata, vocabulary)
        assert back.tokenizer.encode("The License").ids == read.tokenizer.encode("The License").ids


def test_another_padding_id_is_refused(with_text, tmp_path, checkpoint):
    _, vocabulary = with_text
    original = checkpoint("BertEncoder", vocabulary=vocabulary, **CHANGES["roberta"])
    if vocabulary.pad_id == 1:
        write_checkpoint(original, tmp_path / "it", format="huggingface")
    else:
        with pytest.raises(InputError, match="pad_token_id is 0; expected 1"):
            write_checkpoint(original, tmp_path / "it", format="huggingface")


@pytest.mark.extra
def test_auto_tokenizer_gives_our_ids(with_text, tmp_path):
    transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
    read = open_checkpoint(with_text[0])
    write_checkpoint(read, tmp_path / "it", format="huggingface")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "it")
    first, second = "The License, naïve", "you may not use 12, this"
    ids = read.tokenizer.ids_batch([first, second])
    packed = pack(ids[:1], ids[1:], vocabulary=read.vocabulary, max_length=99)
    assert theirs(first, second)["input_ids"] == [*packed["input_ids"][0]]
    assert theirs.pad_token_id == read.vocabulary.pad_id
    assert theirs.mask_token_id == read.vocabulary.mask_id
    assert theirs.model_max_length == read.metadata.max_length

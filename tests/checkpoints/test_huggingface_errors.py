"""Every fault of a Hugging Face folder is one sentence that says what came and what to do."""

import json
import os
import pickle
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras.checkpoints.formats import open_checkpoint
from bert_keras.errors import InputError

FIXTURES = Path(__file__).parent / "fixtures" / "huggingface"
KNOWN = (
    "BertModel, BertForPreTraining, BertForMaskedLM, BertForSequenceClassification, "
    "BertForTokenClassification, BertForQuestionAnswering, BertForMultipleChoice"
)
ACTIVATIONS = "gelu, gelu_python, gelu_pytorch_tanh, gelu_new, gelu_fast, relu, silu, swish, tanh"
THREE_LABELS = "; expected 3 labels numbered from 0, one for each row of classifier.weight"
NOT_THOSE = "the weights are not those of a BertEncoder of 2 layers and hidden size 8: "


@pytest.fixture
def copy(tmp_path):
    return lambda name: Path(shutil.copytree(FIXTURES / name, tmp_path / name))


def refusal(folder: Path, **options) -> str:
    """The sentence without the folder's name, wherever it stands."""
    with pytest.raises(InputError) as error:
        open_checkpoint(folder, **options)
    assert "\n" not in str(error.value)
    return str(error.value).replace(f"{folder}/", "").replace(f"{folder}: ", "")


def change(path: Path, **values) -> None:
    changed = json.loads(path.read_text(encoding="utf-8")) | values
    path.write_text(json.dumps({n: v for n, v in changed.items() if v is not None}))


def go_on(name: str) -> str:
    way = f"ignore=({name!r},), or bert-keras convert SRC DST --ignore {shlex.quote(name)}"
    return f"; to ignore this: {way}"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"model_type": "xlnet"}, "config.json: model_type is 'xlnet'; expected one of 'bert', "
         "'distilbert', 'albert', 'roberta', 'xlm-roberta', 'modernbert', 'electra'"),
        ({"model_type": ["bert"]}, "config.json: model_type is ['bert']; expected one of 'bert', "
         "'distilbert', 'albert', 'roberta', 'xlm-roberta', 'modernbert', 'electra'"),
        ({"model_type": "roberta"}, "config.json: pad_token_id is 0; expected 1, the only "
         "supported value"),
        ({"model_type": "albert", "num_hidden_groups": 2}, "config.json: num_hidden_groups is 2; "
         "expected 1, the only supported value"),
        ({"type_vocab_size": 0}, "config.json: type_vocab_size is 0; expected at least 1"),
        ({"architectures": ["BertForNextSentencePrediction"]},
         f"config.json names the class BertForNextSentencePrediction; expected one of {KNOWN}"
         + go_on("architectures")),
        ({"auto_map": {"AutoModel": "their.Code"}}, "config.json has an auto_map, which names code "
         "in the folder; this code never runs" + go_on("auto_map")),
        ({"hidden_act": "mish"}, "config.json: hidden_act is 'mish'; expected one of "
         + ACTIVATIONS),
        ({"position_embedding_type": "relative_key"}, "config.json: position_embedding_type is "
         '"relative_key"; expected "absolute", the only supported value'),
        ({"is_decoder": True}, "config.json: is_decoder is true; expected false, the only "
         "supported value"),
        ({"add_cross_attention": True}, "config.json: add_cross_attention is true; expected false, "
         "the only supported value"),
        ({"pruned_heads": {"0": [1]}}, 'config.json: pruned_heads is {"0": [1]}; expected {}, the '
         "only supported value"),
        ({"quantization_config": {"bits": 8}}, 'config.json: quantization_config is {"bits": 8}; '
         "expected null, the only supported value"),
        ({"num_attention_heads": 3}, "config.json: hidden_size is 8; expected a multiple of "
         "num_heads, 3"),
        ({"hidden_size": "8"}, "config.json: hidden_size is '8'; expected int"),
        ({"intermediate_size": None}, NOT_THOSE + "; ".join(
            f"encoder.layer.{n}.{name}, expected {shape}" for n in (0, 1) for name, shape in (
                ("intermediate.dense.weight has the shape (12, 8)", (3072, 8)),
                ("intermediate.dense.bias has the shape (12,)", (3072,)),
                ("output.dense.weight has the shape (8, 12)", (8, 3072))))),
        ({"vocab_size": 20}, NOT_THOSE + "embeddings.word_embeddings.weight has the shape (16, 8), "
         "expected (20, 8)"),
        ({"bert_keras": {"model": "BertEncoder", "colour": 1}}, "config.json: bert-keras did not "
         "write this bert_keras; remove that key"),
        ({"bert_keras": {"model": "BertEncoder", "text_columns": 1}}, "config.json: bert-keras did "
         "not write this bert_keras; remove that key"),
    ],
)  # fmt: skip
def test_configs(copy, values, sentence):
    folder = copy("encoder")
    change(folder / "config.json", **values)
    assert refusal(folder) == sentence


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"architectures": None}, "classifier.weight can belong to BertForSequenceClassification, "
         "BertForTokenClassification, BertForMultipleChoice; name the class in config.json, such "
         'as "architectures": ["BertForSequenceClassification"]'),
        ({"id2label": {"0": "a", "1": "b", "3": "c"}}, "config.json: num_labels is 3 and id2label "
         '{"0": "a", "1": "b", "3": "c"}' + THREE_LABELS),
        ({"id2label": {"0": "a", "1": "b"}}, "config.json: num_labels is 3 and id2label "
         '{"0": "a", "1": "b"}' + THREE_LABELS),
        ({"id2label": None, "num_labels": 5}, "config.json: num_labels is 5 and id2label {}"
         + THREE_LABELS),
        ({"id2label": ["a", "b", "c"]}, "config.json: num_labels is 3 and id2label "
         '["a", "b", "c"]' + THREE_LABELS),
        ({"id2label": {"0": "a", "1": None, "2": "c"}}, "config.json: id2label has null; expected "
         "names of labels"),
        ({"problem_type": "ranking"}, "config.json: problem_type is 'ranking'; expected one of "
         "regression, single_label_classification, multi_label_classification"),
    ],
)  # fmt: skip
def test_labels(copy, values, sentence):
    folder = copy("classification")
    change(folder / "config.json", **values)
    assert refusal(folder) == sentence


def put(name: str, array) -> dict:
    return {name: np.asarray(array)}


@pytest.mark.parametrize(
    ("model", "values", "without", "sentence"),
    [
        ("encoder", {}, ["pooler.dense.bias"], NOT_THOSE + "pooler.dense.bias is missing"),
        ("encoder", put("head.weight", np.ones(3, np.float32)), [],
         NOT_THOSE + "head.weight is unexpected"),
        ("encoder", put("bert.pooler.dense.bias", np.ones(8, np.float32)), [],
         "two weights are called pooler.dense.bias, one of them pooler.dense.bias; remove one"),
        ("encoder", put("pooler.dense.bias", np.ones(8, np.int64)), [],
         "pooler.dense.bias: the dtype is int64; expected floating-point numbers; save the model "
         "without quantization"),
        ("encoder", put("pooler.dense.bias", np.ones(8, np.int8)), [],
         "model.safetensors: pooler.dense.bias has the dtype I8; expected F32, F64, F16, BF16, "
         "I64"),
        ("encoder", put("embeddings.position_ids", np.arange(10)[::-1].copy()), [],
         "embeddings.position_ids has wrong values; expected position ids from 0 and segment ids "
         "of 0"),
        ("masked_lm", put("cls.predictions.decoder.weight", np.ones((16, 8), np.float32)), [],
         "cls.predictions.decoder.weight and embeddings.word_embeddings.weight differ, but BERT "
         "has one weight for both; to use the second: "
         "ignore=('cls.predictions.decoder.weight',), or bert-keras convert SRC DST --ignore "
         "cls.predictions.decoder.weight"),
        ("classification", {}, ["bert.pooler.dense.weight", "bert.pooler.dense.bias"],
         "the weights are not those of a BertClassifier of 2 layers and hidden size 8: "
         "pooler.dense.weight is missing; pooler.dense.bias is missing"),
    ],
)  # fmt: skip
def test_weights(copy, model, values, without, sentence):
    folder = copy(model)
    arrays = load_file(folder / "model.safetensors") | values
    remaining = {name: array for name, array in arrays.items() if name not in without}
    save_file(remaining, folder / "model.safetensors")
    assert refusal(folder) == sentence


SPLITS_AS_BERT = "; expected one that splits text as BERT's"
TRAINED_WITH = "remove the file that the weights were not trained with"


@pytest.mark.parametrize(
    ("file", "values", "sentence"),
    [
        ("tokenizer_config.json", {"tokenizer_class": "BertJapaneseTokenizer"}, "the "
         "tokenizer_class is BertJapaneseTokenizer" + SPLITS_AS_BERT + go_on("tokenizer_class")),
        ("config.json", {"tokenizer_class": "XLMTokenizer"}, "the tokenizer_class is XLMTokenizer"
         + SPLITS_AS_BERT + go_on("tokenizer_class")),
        ("tokenizer_config.json", {"do_lower_case": False}, "tokenizer_config.json: do_lower_case "
         "is false, tokenizer.json: lowercase is true; correct the one that the weights were not "
         "trained with"),
        ("tokenizer_config.json", {"strip_accents": False}, "tokenizer_config.json: strip_accents "
         "is false and lower case true; BERT's tokenizer does both or neither"
         + go_on("strip_accents")),
        ("tokenizer_config.json", {"tokenize_chinese_chars": False}, "tokenizer_config.json: "
         "tokenize_chinese_chars is false; expected true" + go_on("tokenize_chinese_chars")),
        ("tokenizer_config.json", {"unk_token": "<unk>"}, "tokenizer_config.json: unk_token is "
         "'<unk>'; expected '[UNK]'" + go_on("unk_token")),
        ("tokenizer_config.json", {"never_split": ["ab"]}, "tokenizer_config.json never splits ab; "
         "this tokenizer does" + go_on("never_split")),
        ("tokenizer.json", {"normalizer": {"type": "Lowercase"}}, "tokenizer.json: normalizer is "
         "Lowercase; expected BertNormalizer" + go_on("normalizer")),
        ("tokenizer.json", {"pre_tokenizer": {"type": "Whitespace"}}, "tokenizer.json: "
         "pre_tokenizer is Whitespace; expected BertPreTokenizer" + go_on("pre_tokenizer")),
        ("tokenizer.json", {"model": {"type": "WordLevel"}}, "tokenizer.json is of a WordLevel "
         "tokenizer; known are WordPiece, byte-level BPE and SentencePiece's Unigram"),
        ("tokenizer.json", {"model": {"vocab": {"a": 0, "b": 2}}}, "tokenizer.json: the ids of the "
         "tokens are not the numbers from 0 to 1, each once"),
        ("tokenizer.json", {"model": {"vocab": {}, "continuing_subword_prefix": "@"}},
         "tokenizer.json: continuing_subword_prefix is '@'; expected '##'"),
        ("tokenizer.json", {"added_tokens": [{"id": 16, "content": "[NEW]"}]}, "the added token "
         "[NEW] with id 16 is not in the vocabulary" + go_on("[NEW]")),
        ("tokenizer.json", {"added_tokens": [{"id": 5, "content": "a", "special": False}]},
         "tokenizer.json never divides the added tokens a; bert-keras does"
         + go_on("added_tokens")),
        ("tokenizer_config.json", {"truncation_side": "left"}, "tokenizer_config.json: "
         "truncation_side is 'left'; expected 'right'" + go_on("truncation_side")),
        ("tokenizer_config.json", {"padding_side": "left"}, "tokenizer_config.json: padding_side "
         "is 'left'; expected 'right'" + go_on("padding_side")),
        ("tokenizer.json", {"added_tokens": [16]}, "tokenizer.json or tokenizer_config.json is not "
         "what transformers writes (TypeError(\"'int' object is not subscriptable\")); copy both "
         "again"),
    ],
)  # fmt: skip
def test_tokenizers(copy, file, values, sentence):
    folder = copy("encoder")
    change(folder / file, **values)
    assert refusal(folder) == sentence


@pytest.mark.parametrize(
    ("change_tokens", "sentence"),
    [
        (lambda p: p[:-1], "token 15 is None in vocab.txt, '##b' in tokenizer.json; "
         + TRAINED_WITH),
        (lambda p: [*p[:5], "x", *p[6:]], "token 5 is 'x' in vocab.txt, 'a' in tokenizer.json; "
         + TRAINED_WITH),
        (lambda p: p[1:], "vocab.txt: the vocabulary lacks [PAD]; BERT needs [PAD] [UNK] [CLS] "
         "[SEP] [MASK]"),
    ],
)  # fmt: skip
def test_vocabularies_that_differ_are_refused(copy, change_tokens, sentence):
    folder = copy("encoder")
    tokens = change_tokens([*open_checkpoint(folder).vocabulary.tokens])
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    assert refusal(folder) == sentence


def test_a_table_longer_than_the_vocabulary_can_be_padded(copy):
    folder = copy("encoder")
    arrays = load_file(folder / "model.safetensors")
    table = arrays["embeddings.word_embeddings.weight"]
    arrays["embeddings.word_embeddings.weight"] = np.concatenate([table, table[:8]])
    save_file(arrays, folder / "model.safetensors")
    change(folder / "config.json", vocab_size=24)
    assert refusal(folder) == (
        "the vocabulary has 16 tokens, but the token table has 24 rows; use the vocabulary that "
        "the weights were trained with, or append 8 unused tokens: pad_vocabulary=True, or "
        "bert-keras convert SRC DST --pad-vocabulary"
    )
    assert len(open_checkpoint(folder, pad_vocabulary=True).vocabulary) == 24


def test_missing_files_are_refused(copy):
    folder = copy("encoder")
    (folder / "model.safetensors").rename(folder / "tf_model.h5")
    assert refusal(folder) == (
        f"{folder} has weights only in tf_model.h5, a file of TensorFlow; load the folder in "
        "transformers 4 and save it again, which writes model.safetensors"
    )
    (folder / "tf_model.h5").unlink()
    assert refusal(folder) == (
        f"{folder} has no weights; expected model.safetensors next to config.json"
    )
    folder = copy("masked_lm")
    (folder / "config.json").unlink()
    assert refusal(folder) == (
        f"{folder} has no config.json; add the file that describes the model"
    )
    folder = copy("classification")
    (folder / "config.json").write_text('{"model_type": "bert"')
    assert refusal(folder).startswith("config.json is not valid JSON")


def test_truncated_files_are_refused(copy):
    folder = copy("encoder")
    os.truncate(folder / "model.safetensors", 5000)
    assert refusal(folder).startswith("model.safetensors is damaged (")
    os.truncate(folder / "model.safetensors", 0)
    assert refusal(folder).endswith("; copy or write it again")


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_git_lfs_pointers_are_refused(copy, name):
    folder = copy("encoder")
    (folder / "model.safetensors").unlink()
    (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert refusal(folder) == (
        f"{name} is a Git LFS pointer, not the file itself; fetch it with git lfs pull"
    )


def test_shards(copy):
    folder = copy("pretraining")
    index = folder / "model.safetensors.index.json"
    weight_map = json.loads(index.read_text())["weight_map"]
    change(index, weight_map=weight_map | {"x": "../model-00001-of-00004.safetensors"})
    no_map = "model.safetensors.index.json has no weight_map to files in its folder; copy it again"
    assert refusal(folder) == no_map
    change(index, weight_map=["x"])
    assert refusal(folder) == no_map
    change(index, weight_map=weight_map)
    (folder / "model-00002-of-00004.safetensors").unlink()
    assert refusal(folder) == ("model-00002-of-00004.safetensors does not exist; expected a file")


def test_a_pytorch_file_without_pytorch(copy, monkeypatch):
    folder = copy("encoder")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert refusal(folder) == (
        'reading pytorch_model.bin requires PyTorch: pip install "bert-keras[parity]"; or save it '
        "again as model.safetensors where it was made"
    )


class _Code:
    """Unpickling it would make the folder `run`."""

    def __reduce__(self):
        return os.mkdir, ("run",)


@pytest.mark.extra
def test_pickled_code_is_never_run(copy, monkeypatch, recwarn):
    torch = pytest.importorskip("torch", reason='needs "bert-keras[parity]"')
    folder = copy("encoder")
    monkeypatch.chdir(folder)
    path = folder / "pytorch_model.bin"
    (folder / "model.safetensors").unlink()
    sentence = (
        "pytorch_model.bin contains pickled code, which is never run, or is damaged; save it again "
        "as model.safetensors where it was made"
    )
    for write in (
        lambda: torch.save({"a": _Code()}, path),
        lambda: torch.save({"a": _Code()}, path, _use_new_zipfile_serialization=False),
        lambda: path.write_bytes(pickle.dumps(_Code())),
    ):
        write()
        assert refusal(folder) == sentence
    torch.save(["a"], path)
    assert refusal(folder) == "pytorch_model.bin contains a list; expected tensors by name"
    torch.save({"state_dict": {"a": torch.ones(3)}}, path)
    assert refusal(folder) == (
        "pytorch_model.bin: state_dict is not a tensor; expected tensors by name"
    )
    torch.save({"a": torch.ones(3).to_sparse()}, path)
    assert refusal(folder) == (
        "pytorch_model.bin: a is sparse, quantized or complex; expected a dense real tensor"
    )
    torch.save({"a": torch.ones(3000)}, path)
    os.truncate(path, 2000)
    assert refusal(folder) in (sentence, "pytorch_model.bin is damaged; copy it again")
    path.write_bytes(b"")
    assert refusal(folder) in (sentence, "pytorch_model.bin is damaged; copy it again")
    monkeypatch.setattr(torch, "__version__", "2.5.1")
    assert refusal(folder) == (
        "reading pytorch_model.bin requires PyTorch 2.6 or newer, because 2.5.1 can run code in "
        'it; pip install "bert-keras[parity]"'
    )
    assert not (folder / "run").exists() and not recwarn.list

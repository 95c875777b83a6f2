"""What an error message about a checkpoint tells the user to do succeeds."""

import dataclasses
import json
import os
import pickle
import re
import shlex
import shutil
import sys
from importlib.metadata import requires
from pathlib import Path

import fsspec
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from bert_keras.checkpoints.formats import open_checkpoint, open_text_checkpoint, write_checkpoint
from bert_keras.checkpoints.google.variables import stored_variables, write_variables
from bert_keras.cli import main
from bert_keras.errors import InputError
from bert_keras.models import MODELS
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

FIXTURES = Path(__file__).parent / "fixtures"
HUGGING_FACE = "model.safetensors"
CHECKPOINT = "bert_model.ckpt"
DATA = f"{CHECKPOINT}.data-00000-of-00001"
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
POOLER = "pooler.dense.bias"


# What damages a checkpoint or repairs it: functions of its folder and of the undamaged folder.


def values(file, **changes):
    """Changes values in a JSON file; None removes them."""

    def change(folder, original):
        contents = json.loads((folder / file).read_text("utf-8")) | changes
        contents = {name: value for name, value in contents.items() if value is not None}
        (folder / file).write_text(json.dumps(contents), "utf-8")

    return change


def content(file, data):
    return lambda folder, original: (folder / file).write_bytes(data)


def cut(file, size=99):
    return lambda folder, original: os.truncate(folder / file, size)


def removed(*files):
    return lambda folder, original: [(folder / file).unlink() for file in files]


def renamed(file, new):
    return lambda folder, original: (folder / file).rename(folder / new)


def copied(*files):
    return lambda folder, original: [shutil.copy(original / file, folder / file) for file in files]


def tensors(*without, **new):
    """Removes and adds arrays of a model.safetensors."""

    def change(folder, original):
        arrays = load_file(folder / HUGGING_FACE)
        for name in without:
            del arrays[name]
        save_file(arrays | {n.replace("__", "."): a for n, a in new.items()}, folder / HUGGING_FACE)

    return change


def vocabulary(last):
    text = "\n".join([*VOCABULARY.tokens[:-1], last])
    return lambda folder, original: (folder / "vocab.txt").write_text(text, "utf-8")


VOCABULARY = open_text_checkpoint(FIXTURES / "huggingface" / "encoder").vocabulary
STEPS = "training_state.safetensors"
GOOGLE, HUB = "google/pretraining", "keras_hub/masked_lm"


def saved_model(folder, original):
    (folder / "saved").mkdir()
    (folder / "saved" / "saved_model.pb").touch()


def sentencepiece_list(folder, original):
    """Replaces the model of SentencePiece by a list of its tokens, as in monologg/kobert."""
    (folder / "spiece.model").unlink()
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, "▁the", "license"]), "utf-8")


def run_folder(folder, original):
    """Moves the checkpoint to `model` beside the states of a training run."""
    for path in list(folder.iterdir()):
        (folder / "model").mkdir(exist_ok=True)
        path.rename(folder / "model" / path.name)
    tf.train.Checkpoint(step=tf.Variable(tf.ones([]))).write(str(folder / "checkpoints" / "step-1"))


def hub_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text("utf-8"))["config"] | changes
    values("config.json", config=config)(folder, None)


def lose_classifier(folder):
    (folder / "task.weights.h5").unlink()
    extra = {"labels": ["a", "b", "c"]}
    (folder / "metadata.json").write_text(json.dumps({"bert_keras": extra}), "utf-8")


CASES = [
    # any format
    ("huggingface/encoder", "text", removed("tokenizer.json"),
     "has no vocabulary; add the vocab.txt or tokenizer.json that its",
     vocabulary(VOCABULARY.tokens[-1])),
    ("huggingface/encoder", "text", removed("tokenizer.json"),
     "or tokenizer.json that its weights were trained with", copied("tokenizer.json")),
    ("BertEncoder", "weights.safetensors", None,
     "is a file; give the folder of the checkpoint, FOLDER", ""),
    ("BertEncoder", "saved", saved_model,
     "only the computation; give the folder of the checkpoint that it was exported from", ""),
    ("BertEncoder", "", run_folder, "itself is not a checkpoint; give FOLDER/model", "model"),
    ("BertEncoder", "checkpoints/step-1", run_folder,
     r"checkpoint of TensorFlow 2 objects; .* (for a run of bert-keras, give OUTPUT/model)",
     "model"),
    ("huggingface/encoder", "", content(HUGGING_FACE, LFS_POINTER),
     "not the file itself; fetch it with git lfs pull", copied(HUGGING_FACE)),
    # bert-keras
    ("BertEncoder", "", cut("weights.safetensors", 9),
     "weights.safetensors is damaged (.*); copy or write it again", copied("weights.safetensors")),
    ("BertEncoder", "", values("bert_keras.json", colour=1),
     "'colour'); write the model again", copied("bert_keras.json")),
    ("BertEncoder", "", lambda f, _: save_file({"a": np.ones(1)}, f / STEPS),
     "states no step; remove the file to start from the weights only", removed(STEPS)),
    # Google
    (GOOGLE, "", values("bert_config.json", bert_keras=1),
     "bert_config.json: bert-keras did not write this bert_keras; remove that key",
     values("bert_config.json", bert_keras=None)),
    (GOOGLE, "", values("bert_config.json", vocab_size=None),
     "lacks vocab_size; add what is missing", values("bert_config.json", vocab_size=23)),
    (GOOGLE, "", removed("bert_config.json"),
     "is missing; add the file with the hyperparameters", copied("bert_config.json")),
    (GOOGLE, "", lambda f, _: shutil.copy(f / f"{CHECKPOINT}.index", f / "other.ckpt.index"),
     "contains 2 checkpoints; give the path of one: .*, FOLDER/other.ckpt", CHECKPOINT),
    (GOOGLE, "", content(f"{CHECKPOINT}.index", b"x" * 99),
     "is damaged or not of a checkpoint (.*); copy it again", copied(f"{CHECKPOINT}.index")),
    (GOOGLE, "", cut(DATA), "is damaged at .* (.*); copy it again", copied(DATA)),
    (GOOGLE, "", removed(DATA), "00001 is missing; add it, because", copied(DATA)),
    # Hugging Face
    ("huggingface/encoder", "", values("config.json", bert_keras=1),
     "checkpoint: config.json: bert-keras did not write this bert_keras; remove that",
     values("config.json", bert_keras=None)),
    ("huggingface/encoder", "", removed("config.json"),
     "has no config.json; add the file that describes the model", copied("config.json")),
    ("huggingface/classification", "", values("config.json", architectures=None),
     'name the class in config.json, such as "architectures": ["BertForSequenceClassification"]',
     values("config.json", architectures=["BertForSequenceClassification"])),
    ("huggingface/encoder", "", vocabulary("##z"),
     "remove the file that the weights were not trained with",
     removed("vocab.txt")),
    ("huggingface/encoder", "", values("tokenizer_config.json", do_lower_case=False),
     "lowercase is true; correct the one that the weights were not trained with",
     values("tokenizer_config.json", do_lower_case=True)),
    ("huggingface/encoder", "", values("tokenizer.json", added_tokens=[16]),
     "what transformers writes (.*); copy both again",
     copied("tokenizer.json", "tokenizer_config.json")),
    ("huggingface/encoder", "", values("tokenizer.json", model={}),
     "no table of tokens and their ids; copy it again", copied("tokenizer.json")),
    ("huggingface/encoder", "", tensors(bert__pooler__dense__bias=np.ones(8, np.float32)),
     f"{POOLER}, one of them {POOLER}; remove one", tensors(POOLER)),
    ("huggingface/encoder", "", tensors(pooler__dense__bias=np.ones(8, np.int64)),
     "floating-point numbers; save the model without quantization",
     tensors(pooler__dense__bias=np.ones(8, np.float32))),
    ("huggingface/pretraining", "", values("model.safetensors.index.json", weight_map=["x"]),
     "to files in its folder; copy it again", copied("model.safetensors.index.json")),
    ("roberta", "", content("merges.txt", b"#version: 0.2\na b c"),
     "txt is damaged (.*); copy both again",
     copied("vocab.json", "merges.txt")),
    ("albert", "", cut("spiece.model", 99), "spiece.model is damaged (.*); copy it again",
     copied("spiece.model")),
    ("albert", "", content("spiece.model", b""), "ends after 0 pieces; copy it again",
     copied("spiece.model")),
    ("albert", "", sentencepiece_list,
     "tokens of SentencePiece, such as '▁the', .*; add the spiece.model or tokenizer.json of the",
     copied("spiece.model")),
    # KerasHub
    (HUB, "", lambda f, _: hub_config(f, dtype="int8_from_float32"),
     "a quantized model; save the preset without quantization", copied("config.json")),
    ("keras_hub/classifier", "", lambda f, _: lose_classifier(f),
     "the classifier that metadata.json describes; add it, or", copied("task.weights.h5")),
    ("keras_hub/classifier", "", lambda f, _: lose_classifier(f),
     "or remove metadata.json to read only the encoder", removed("metadata.json")),
    (HUB, "", cut("model.weights.h5"), "h5 is damaged (.*); copy or write it again",
     copied("model.weights.h5")),
]  # fmt: skip


@pytest.fixture
def original(checkpoint, subwords, tmp_path):
    """Returns a maker of checkpoints: a fixture, or one of a model or of a tokenizer."""

    def make(name):
        folder = tmp_path / "original"
        if "/" in name:
            return Path(shutil.copytree(FIXTURES / name, folder))
        if name not in subwords:
            write_checkpoint(checkpoint(name), folder, format="bert-keras")
            return folder
        shutil.copytree(FIXTURES / "huggingface" / "encoder", folder)
        for file in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
            (folder / file).unlink(missing_ok=True)
        shutil.copytree(subwords[name], folder, dirs_exist_ok=True)
        arrays = load_file(folder / HUGGING_FACE)
        arrays["embeddings.word_embeddings.weight"] = np.ones((400, 8), np.float32)
        save_file(arrays, folder / HUGGING_FACE)
        values("config.json", vocab_size=400)(folder, None)
        return folder

    return make


@pytest.mark.parametrize(("name", "path", "damage", "remedy", "correct"), CASES)
def test_the_remedy_of_an_error_succeeds(original, tmp_path, name, path, damage, remedy, correct):
    source, folder = original(name), tmp_path / "checkpoint"
    shutil.copytree(source, folder)
    if damage:
        damage(folder, source)
    is_text = path == "text"

    def read(path):
        checkpoint = (open_text_checkpoint if is_text else open_checkpoint)(folder / path)
        return [tensor.read() for tensor in checkpoint.tensors.values()]

    pattern = ".*".join(map(re.escape, remedy.replace("FOLDER", str(folder)).split(".*")))
    with pytest.raises(InputError, match=pattern):
        read("" if is_text else path)
    if isinstance(correct, str):
        assert read(correct)
    else:
        correct(folder, source)
        assert read("" if is_text else path)


def variables(*without):
    """Writes Google's checkpoint again without the variables of some names."""

    def change(folder, original):
        stored = stored_variables(original / CHECKPOINT)
        stored = {name: tensor for name, tensor in stored.items() if name not in without}
        step = {n: int(stored.pop(n).read()) for n in ("global_step",) if n in stored}
        write_variables(folder / CHECKPOINT, stored, integers=step)

    return change


def sentence_transformers(folder, original):
    types = ("Transformer", "SpladePooling", "WeightedLayerPooling")
    modules = [{"type": f"sentence_transformers.models.{name}", "path": ""} for name in types]
    (folder / "modules.json").write_text(json.dumps(modules))


IGNORABLE = {
    "config.json": [
        {"architectures": ["BertForNextSentencePrediction"]},
        {"tokenizer_class": "XLMTokenizer"},
    ],
    "tokenizer_config.json": [
        {"tokenizer_class": "BertJapaneseTokenizer"},
        {"strip_accents": False},
        {"tokenize_chinese_chars": False},
        {"unk_token": "<unk>"},
    ],
    "tokenizer.json": [
        {"normalizer": {"type": "Lowercase"}},
        {"pre_tokenizer": {"type": "Whitespace"}},
        {"added_tokens": [{"id": 16, "content": "[NEW]"}]},
    ],
}
DECODER = np.ones((20, 8), np.float32)
RECOMMENDED = [  # the last column is the number of commands that follow each other
    ("BertQuestionAnswering", "bert-keras", [], "--to keras-hub", 1),
    ("BertFeatureTagger", "bert-keras", [], "--to huggingface", 1),
    ("BertTokenClassifier", "bert-keras", [], "--to google", 1),
    ("BertSentenceEncoder", "bert-keras", [], "--to keras-hub", 1),
    ("BertEncoder", "bert-keras", [], "--to sentence-transformers", 1),
    ("BertEncoder", "google", [vocabulary("##z")], "", 1),
    ("BertEncoder", "google", [values("bert_config.json", **{"it's [new]": 1, "b": 2})], "", 1),
    ("BertEncoder", "huggingface",
     [values("config.json", auto_map="x"), values("tokenizer_config.json", never_split="a")],
     "", 2),
    ("BertMaskedLM", "huggingface",
     [values("config.json", auto_map="x"), tensors(cls__predictions__decoder__weight=DECODER)],
     "", 2),
    *(("huggingface/encoder", "", [values(file, **changes)], "", 1)
      for file, each in IGNORABLE.items() for changes in each),
    ("huggingface/encoder", "", [sentence_transformers], "", 2),
    (GOOGLE, "", [variables("global_step")], "", 1),
    (GOOGLE, "", [variables("bert/pooler/dense/bias/adam_m"), values("bert_config.json", b=2)],
     "", 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "format", "damages", "options", "steps"), RECOMMENDED)
def test_the_recommended_command_succeeds(
    checkpoint, original, tmp_path, capsys, name, format, damages, options, steps
):
    source, command = tmp_path / "a", f"convert SRC DST {options}"
    if format:
        write_checkpoint(checkpoint(name), source, format=format)
    else:
        shutil.copytree(original(name), source)
    for damage in damages:
        damage(source, tmp_path / "original")
    paths = {"SRC": str(source), "DST": str(tmp_path / "b")}

    def run():
        return main([paths.get(word, word) for word in shlex.split(command)])

    for _ in range(steps):
        assert run() == 2
        (command,) = re.findall("bert-keras (convert SRC DST .*)", capsys.readouterr().err)
    assert run() == 0


@pytest.mark.parametrize(
    ("tokens", "remedy", "correct"),
    [
        ("", "is empty; write one token on each line", "cab\n"),
        ("a cab\n", "contains white space; write one word on each line", "cab\n"),
        ("cab\ncab\n", "is given twice; remove one of them", "cab\n"),
        ("Cab\n", "makes 'cab' of 'Cab'; write the words that it makes", "cab\n"),
        ("cab\nthe-cab\n", "of 'the-cab'; write the words that it makes, or leave this token out",
         "cab\n"),
    ],
)  # fmt: skip
def test_new_tokens_are_corrected(checkpoint, tmp_path, capsys, tokens, remedy, correct):
    write_checkpoint(checkpoint("BertEncoder"), tmp_path / "a", format="bert-keras")
    file = tmp_path / "new.txt"
    command = ["convert", str(tmp_path / "a"), str(tmp_path / "b"), "--extend-vocabulary"]
    file.write_text(tokens)
    assert main([*command, str(file)]) == 2
    assert remedy in capsys.readouterr().err
    file.write_text(correct)
    assert main([*command, str(file)]) == 0


def test_a_checkpoint_gets_the_vocabulary_to_extend(checkpoint, tmp_path, capsys):
    write_checkpoint(checkpoint("BertEncoder"), tmp_path / "a", format="bert-keras")
    (tmp_path / "a" / "vocab.txt").rename(tmp_path / "vocab.txt")
    (tmp_path / "new.txt").write_text("cab\n")
    command = ["convert", str(tmp_path / "a"), str(tmp_path / "b"), "--extend-vocabulary"]
    assert main([*command, str(tmp_path / "new.txt")]) == 2
    remedy = "vocabulary to extend; add the vocab.txt that its weights were trained with"
    assert remedy in capsys.readouterr().err
    shutil.copy(tmp_path / "vocab.txt", tmp_path / "a")
    assert main([*command, str(tmp_path / "new.txt")]) == 0


def test_formats_of_encoders_and_sentence_encoders(checkpoint, tmp_path):
    for model, format, remedy, correct in (
        ("BertSentenceEncoder", "google", "; choose sentence-transformers, or write only the "
         "encoder: bert-keras convert SRC DST --to google --model BertEncoder",
         "sentence-transformers"),
        ("BertEncoder", "sentence-transformers", "; write it as a sentence encoder: bert-keras "
         "convert SRC DST --to sentence-transformers --model BertSentenceEncoder", "google"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=re.escape(remedy)):
            write_checkpoint(checkpoint(model), tmp_path / model, format=format)
        write_checkpoint(checkpoint(model), tmp_path / model, format=correct)


def test_keras_hub_stores_only_the_tokenizer_of_the_family(checkpoint, tmp_path):
    """A RoBERTa with WordPiece, such as KLUE's."""
    tokens = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *"abcdefgh")
    changes = {**ROBERTA, **NO_POOLER}
    original = checkpoint("BertMaskedLM", vocabulary=Vocabulary(tokens), **changes)
    remedy = "another kind of tokens than this vocabulary; choose another format"
    with pytest.raises(InputError, match=remedy):
        write_checkpoint(original, tmp_path / "it", format="keras-hub")
    write_checkpoint(original, tmp_path / "it", format="huggingface")


NO_POOLER, ROBERTA = {"has_pooler": False}, {"position_offset": 2, "num_segments": 1}


@pytest.mark.parametrize(
    ("model", "changes", "format", "remedy"),
    [
        ("BertEncoder", {"activation": "silu"}, "google", "activation silu; choose another format"),
        ("BertTokenClassifier", {"activation": "silu"}, "google", "; choose another format"),
        ("BertEncoder", {"activation": "silu"}, "keras-hub", "only GELU; choose another format"),
        ("BertPretrainer", {"activation": "silu"}, "keras-hub", "only GELU; choose another form"),
        ("BertEncoder", {"layer_norm_epsilon": 0.01}, "keras-hub", "too much; choose another form"),
        ("BertEncoder", {**ROBERTA, "num_segments": 2}, "keras-hub", "has 2; choose another forma"),
        ("BertMaskedLM", NO_POOLER, "keras-hub",
         'load it with a new one, BertMaskedLM.from_pretrained(..., has_pooler=True, new=("pooler"'
         ",)), or choose another format"),
        ("BertQuestionAnswering", NO_POOLER, "keras-hub",
         'load it with a new one, BertEncoder.from_pretrained(..., has_pooler=True, new=("pooler"'
         ",)), or choose another format"),
        ("BertMaskedLM", ROBERTA, "keras-hub",
         "load it without, BertMaskedLM.from_pretrained(..., has_pooler=False), or choose another"),
        ("BertTokenClassifier", ROBERTA, "keras-hub",
         "load it without, BertEncoder.from_pretrained(..., has_pooler=False), or choose another"),
    ],
)  # fmt: skip
def test_a_model_is_written_in_another_format_or_loaded_otherwise(
    checkpoint, tmp_path, model, changes, format, remedy
):
    original = dataclasses.replace(checkpoint(model, **changes), vocabulary=None)
    write_checkpoint(original, tmp_path / "native", format="bert-keras")
    with pytest.raises(InputError, match=re.escape(remedy)):
        write_checkpoint(original, tmp_path / "first", format=format)
    write_checkpoint(original, tmp_path / "other", format="huggingface")
    for name, options in re.findall(r"(\w+)\.from_pretrained\(\.\.\., (.*)\), or", remedy):
        loaded = MODELS[name].from_pretrained(tmp_path / "native", **eval(f"dict({options})"))
        loaded.save_pretrained(tmp_path / "loaded")
        write_checkpoint(open_checkpoint(tmp_path / "loaded"), tmp_path / "first", format=format)


def test_a_remote_checkpoint_is_copied_to_this_machine(checkpoint, original, tmp_path, monkeypatch):
    remote, local = "memory://remedies/checkpoint", tmp_path / "local"
    fsspec.filesystem("memory").put(str(original("BertEncoder")), remote, recursive=True)
    with pytest.raises(InputError, match="; copy the folder of the checkpoint to this machine"):
        open_checkpoint(remote)
    fsspec.filesystem("memory").get(remote, str(local), recursive=True)
    assert open_checkpoint(local)
    with pytest.raises(InputError, match="; write a local folder and copy it"):
        write_checkpoint(checkpoint("BertEncoder"), f"{remote}/new", format="bert-keras")
    write_checkpoint(checkpoint("BertEncoder"), tmp_path / "new", format="bert-keras")
    fsspec.filesystem("memory").put(str(tmp_path / "new"), f"{remote}/new", recursive=True)


def test_a_file_that_became_shorter_is_copied_again(original, tmp_path):
    source = original("BertEncoder")
    shutil.copytree(source, folder := tmp_path / "checkpoint")
    tensors = open_checkpoint(folder).tensors
    os.truncate(folder / "weights.safetensors", 99)
    with pytest.raises(InputError, match="shorter while it was read; copy it again"):
        list(tensors.values())[-1].read()
    shutil.copy(source / "weights.safetensors", folder)
    assert len(list(tensors.values())[-1].read())


def test_a_preset_is_downloaded_by_its_name_or_read_from_a_folder(original, tmp_path, monkeypatch):
    from keras_hub.src.utils import preset_utils

    def get_file(name, path):
        if name != "kaggle://user/right" or not is_online:
            raise ConnectionError("refused")
        if not (folder / path).is_file():
            raise FileNotFoundError(path)
        return folder / path

    folder = original(HUB)
    monkeypatch.setattr(preset_utils, "get_file", get_file)
    remedy = "; check its name and the network, or give the folder of a checkpoint on this machine"
    is_online = False
    with pytest.raises(InputError, match=remedy):
        open_checkpoint("kaggle://user/right")
    is_online = True
    with pytest.raises(InputError, match=remedy):
        open_checkpoint("kaggle://user/wrong")
    assert open_checkpoint("kaggle://user/right")
    assert open_checkpoint(folder)


@pytest.mark.extra
def test_a_file_of_pytorch_is_read_or_saved_again(original, monkeypatch):
    torch = pytest.importorskip("torch", reason='needs "bert-keras[parity]"')
    folder = original("huggingface/encoder")
    arrays, file = load_file(folder / HUGGING_FACE), folder / "pytorch_model.bin"
    torch.save({name: torch.tensor(array) for name, array in arrays.items()}, file)
    (folder / HUGGING_FACE).unlink()
    content = file.read_bytes()

    def assert_refused(remedy):
        with pytest.raises(InputError, match=re.escape(remedy)):
            open_checkpoint(folder)

    file.write_bytes(b"")
    assert_refused("pytorch_model.bin is damaged; copy it again")
    file.write_bytes(content)
    assert open_checkpoint(folder)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", None)
        assert_refused('pip install "bert-keras[parity]"; or save it again as model.safetensors')
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "2.5.1")
        assert_refused('; pip install "bert-keras[parity]"')
    parity = [line for line in requires("bert-keras") or () if "parity" in line]
    assert any(line.startswith("torch=") for line in parity)
    file.write_bytes(pickle.dumps(ValueError()))
    assert_refused("; save it again as model.safetensors where it was made")
    save_file(arrays, folder / HUGGING_FACE)
    assert open_checkpoint(folder)


def test_the_parent_of_a_file_is_recommended_only_if_it_is_a_checkpoint(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r"is a file; give the folder of the checkpoint$"):
        open_checkpoint(tmp_path / "notes.txt")

"""Files of tokenizers in Hugging Face's folders: old ones are read, damaged ones are refused."""

import dataclasses
import json
import shutil

import pytest
from tokenizers import AddedToken, Tokenizer
from tokenizers.processors import TemplateProcessing

from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.huggingface.tokenizer import read_tokenizer, read_tokenizer_json
from bert_keras.errors import InputError
from bert_keras.runs.conversion import convert
from bert_keras.text.fast_tokenizer import FastTokenizer, is_uncased, rules_vocabulary
from bert_keras.text.packing import encode
from tests.checkpoints.conftest import assert_round_trip, change_json
from tests.factories import random_checkpoint, tiny_vocabulary
from tests.relatives import CHANGES

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
PROCESSOR = {"type": "BertProcessing", "sep": ["[CLS]", 2], "cls": ["[SEP]", 3]}


def read(folder, *, ignore=()):
    return read_tokenizer(folder, tokenizer_class=None, ignore=ignore)


@pytest.fixture
def folder(request, subwords, tmp_path):
    return shutil.copytree(subwords[request.param], tmp_path / request.param)


@pytest.fixture
def wordpiece(tmp_path):
    """The files of a WordPiece tokenizer that we wrote."""
    write_checkpoint(random_checkpoint("BertEncoder"), tmp_path / "it", format="huggingface")
    return tmp_path / "it"


def test_long_pairs_are_cut_as_where_the_model_comes_from(wordpiece, tmp_path):
    change_json(wordpiece / "config.json", bert_keras={})
    convert(wordpiece, tmp_path / "ours")
    convert(tmp_path / "ours", tmp_path / "back", format="huggingface")
    write_checkpoint(random_checkpoint("BertEncoder"), tmp_path / "own", format="bert-keras")
    for name in ("it", "ours", "back", "own"):
        tokenizer = open_checkpoint(tmp_path / name).tokenizer
        (row,) = encode(tokenizer, ["a a a"], ["b b b"], max_length=8)["segment_ids"].tolist()
        assert row.count(1) == (3 if name == "own" else 4)  # with [SEP]


@pytest.mark.parametrize("folder", ["roberta", "albert"], indirect=True)
def test_an_old_tokenizer_json_is_read(folder):
    """The first published files have no type, merges as texts and a different Metaspace."""
    current = read_tokenizer_json(folder, {})
    old = json.loads(current)
    del old["model"]["type"]
    if folder.name == "roberta":
        old["model"]["merges"] = [" ".join(pair) for pair in old["model"]["merges"]]
    else:
        *_, metaspace = old["pre_tokenizer"]["pretokenizers"]
        del metaspace["prepend_scheme"], metaspace["split"]
        metaspace |= {"str_rep": "▁", "add_prefix_space": True}
    (folder / "tokenizer.json").write_text(json.dumps(old), "utf-8")
    assert read(folder).vocabulary == rules_vocabulary(current)


@pytest.mark.parametrize("folder", ["roberta"], indirect=True)
def test_a_tokenizer_json_states_the_separators(folder):
    rules = Tokenizer.from_str(read_tokenizer_json(folder, {}))
    ids = [(token, rules.token_to_id(token)) for token in ("<s>", "</s>")]
    rules.post_processor = TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=ids
    )
    rules.save(str(folder / "tokenizer.json"))
    assert read(folder).vocabulary.specials.num_separators == 1


@pytest.mark.parametrize("folder", ["roberta", "albert", "xlm-roberta"], indirect=True)
def test_published_tokenizer_files_are_written_as_tokenizer_json(folder, tmp_path):
    vocabulary = rules_vocabulary(read_tokenizer_json(folder, {}))
    config = {**CHANGES[folder.name], "vocab_size": len(vocabulary)}
    original = random_checkpoint("BertClassifier", config=config, vocabulary=vocabulary)
    write_checkpoint(original, tmp_path / "published", format="huggingface")
    (tmp_path / "published" / "tokenizer.json").unlink()
    shutil.copytree(folder, tmp_path / "published", dirs_exist_ok=True)
    read = open_checkpoint(tmp_path / "published")
    assert read.vocabulary == vocabulary
    assert read.metadata.lowercase == is_uncased(vocabulary) == (folder.name == "albert")
    assert_round_trip(read, tmp_path, format="huggingface")
    assert open_checkpoint(tmp_path / "theirs").vocabulary == vocabulary
    if folder.name == "albert":  # a RoBERTa counts positions from the padding id 1
        config = CHANGES["roberta"]
        wrong = random_checkpoint("BertMaskedLM", config=config, vocabulary=vocabulary)
        with pytest.raises(InputError):
            write_checkpoint(wrong, tmp_path / "wrong", format="huggingface")


@pytest.mark.parametrize(
    ("folder", "file", "data"),
    [
        *(("roberta", "merges.txt", None), ("roberta", "vocab.json", None)),
        ("roberta", "vocab.json", '{"a": 0, "b": 2}'),
        ("roberta", "tokenizer.json", '{"model": {"type": "BPE"}}'),
        ("roberta", "tokenizer_config.json", '{"mask_token": "[MASK]"}'),
        ("modernbert", "tokenizer_config.json", '{"add_prefix_space": true}'),
        ("albert", "spiece.model", "version https://git-lfs.github.com/spec/v1\n"),
    ],
    indirect=["folder"],
)
def test_damaged_files_are_refused(folder, file, data):
    assert read(folder)
    (folder / file).unlink() if data is None else (folder / file).write_text(data, "utf-8")
    with pytest.raises(InputError):
        read(folder)


@pytest.mark.parametrize("folder", ["xlm-roberta"], indirect=True)
def test_a_generic_class_does_what_tokenizer_json_says(folder):
    """The files of paraphrase-multilingual-MiniLM-L12-v2 state do_lower_case, without effect."""
    (folder / "tokenizer.json").write_text(read_tokenizer_json(folder, {}), "utf-8")
    settings = {"do_lower_case": True, "unk_id": 3, "spaces_between_special_tokens": False}
    change_json(folder / "tokenizer_config.json", **settings)
    with pytest.raises(InputError):
        read(folder)
    change_json(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    tokenizer = read(folder)
    assert not tokenizer.lowercase and not tokenizer.notes


@pytest.mark.parametrize("is_special", [True, False])
@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json", "added_tokens.json"])
@pytest.mark.parametrize("folder", ["roberta", "modernbert", "albert", "kobert"], indirect=True)
def test_added_tokens_are_never_divided(folder, file, is_special):
    """transformers, too, finds "<e1>" in a text as one token."""
    theirs = Tokenizer.from_str(read_tokenizer_json(folder, {}))
    theirs.add_tokens([AddedToken("<e1>", special=is_special)])
    number, rules = theirs.token_to_id("<e1>"), json.loads(theirs.to_str())
    decoder, special = {str(number): rules["added_tokens"][-1]}, ["<e1>"] * is_special
    files = {"tokenizer.json": rules, "tokenizer_config.json": {"added_tokens_decoder": decoder}}
    change_json(folder / file, **files.get(file, {"<e1>": number}))
    change_json(folder / "special_tokens_map.json", additional_special_tokens=special)
    tokenizer = FastTokenizer(read(folder).vocabulary)
    for text in ("the <e1>License", "<e1> the<e1><e1>", "<e1"):
        ids = theirs.encode(text, add_special_tokens=False).ids
        assert tokenizer.ids_batch([text]) == [ids] and ids.count(number) == text.count("<e1>")
    change_json(folder / "added_tokens.json", **{"<e2>": 2000})
    with pytest.raises(InputError):
        read(folder)


@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("tokenizer_config.json", {"tokenizer_class": "BertJapaneseTokenizer"}),
        ("tokenizer_config.json", {"do_lower_case": False}),
        ("tokenizer_config.json", {"strip_accents": False}),
        ("tokenizer_config.json", {"tokenize_chinese_chars": False}),
        ("tokenizer_config.json", {"unk_token": "<unk>"}),
        ("special_tokens_map.json", {"unk_token": {"content": "<unk>"}}),
        ("special_tokens_map.json", {"additional_special_tokens": ["the"]}),
        ("added_tokens.json", {"[E1]": 18}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"18": {"content": "[E1]"}}}),
        ("tokenizer_config.json", {"extra_special_tokens": {"river_token": "river"}}),
        ("tokenizer_config.json", {"do_lower_case": "true"}),
        ("tokenizer_config.json", {"split_special_tokens": True}),
        ("tokenizer_config.json", {"truncation_side": "left"}),
        ("tokenizer_config.json", {"never_split": ["the"]}),
        ("tokenizer_config.json", {"model_input_names": ["input_ids", "attention_mask"]}),
        ("tokenizer.json", {"post_processor": BYTE_LEVEL}),
        ("tokenizer.json", {"post_processor": PROCESSOR}),
        ("tokenizer.json", {"normalizer": {"type": "Lowercase"}}),
        ("tokenizer.json", {"pre_tokenizer": {"type": "Whitespace"}}),
        ("tokenizer.json", {"model": {"type": "WordLevel"}}),
        ("tokenizer.json", {"model": {"vocab": {"a": 0, "b": 2}}}),
        ("tokenizer.json", {"model": {"vocab": {}, "continuing_subword_prefix": "@"}}),
        ("tokenizer.json", {"added_tokens": [{"id": 99, "content": "[NEW]"}]}),
        ("tokenizer.json", {"added_tokens": [{"id": 5, "content": "the"}]}),
    ],
)
def test_rules_that_differ_from_berts_are_refused(wordpiece, file, values):
    assert read(wordpiece).vocabulary == tiny_vocabulary()
    change_json(wordpiece / file, **values)
    with pytest.raises(InputError):
        read(wordpiece)
    if values.keys() & {"strip_accents", "tokenizer_class", "truncation_side", "[E1]"}:
        values = {"added_tokens"} if "[E1]" in values else values
        (note,) = read(wordpiece, ignore=tuple(values)).notes
        assert "ignored" in note


def test_unknown_fields_are_noted(wordpiece):
    change_json(wordpiece / "tokenizer_config.json", padding_side="right", mystery=3)
    (note,) = read(wordpiece).notes
    assert "mystery" in note and "padding" not in note


def test_vocab_txt_and_tokenizer_json(wordpiece):
    for removed in ("tokenizer.json", "vocab.txt"):
        kept = (wordpiece / removed).read_bytes()
        (wordpiece / removed).unlink()
        assert read(wordpiece).vocabulary == tiny_vocabulary()
        (wordpiece / removed).write_bytes(kept)
    (wordpiece / "vocab.txt").write_text("\n".join(tiny_vocabulary().tokens[:-1]) + "\n")
    with pytest.raises(InputError):
        read(wordpiece)
    (wordpiece / "tokenizer.json").unlink()
    change_json(wordpiece / "tokenizer_config.json", do_lower_case=False, model_max_length=9)
    change_json(wordpiece / "sentence_bert_config.json", max_seq_length=7)
    text = read(wordpiece)
    assert (text.lowercase, text.max_length) == (False, 7)
    (wordpiece / "tokenizer_config.json").unlink()
    assert read(wordpiece).lowercase  # the vocabulary has no capital letter
    (wordpiece / "vocab.txt").unlink()
    assert read(wordpiece).vocabulary is None


def test_a_table_longer_than_the_vocabulary_can_be_padded(tmp_path):
    original = random_checkpoint("BertEncoder", config={"vocab_size": 24})
    for format in ("huggingface", "bert-keras"):
        folder = tmp_path / format
        with pytest.raises(InputError):
            write_checkpoint(original, folder, format=format)
        padded = dataclasses.replace(original, vocabulary=original.vocabulary.padded(24))
        write_checkpoint(padded, folder, format=format)
        (folder / "tokenizer.json").unlink(missing_ok=True)
        original.vocabulary.save(folder / "vocab.txt")
        with pytest.raises(InputError):
            open_checkpoint(folder)
        assert len(open_checkpoint(folder, pad_vocabulary=True).vocabulary) == 24

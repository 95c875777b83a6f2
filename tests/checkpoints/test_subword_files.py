"""Files of RoBERTa's and ALBERT's tokenizers: those of old come in, damaged ones are refused."""

import json
import shutil

import pytest
from tokenizers import Tokenizer

from bert_keras.checkpoints.huggingface.rules import read_rules
from bert_keras.checkpoints.huggingface.tokenizer import read_tokenizer
from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import FastTokenizer, rules_vocabulary

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
NUMBERED = "the ids of the tokens are not the numbers from 0 to"
NOT_BOTH = "is missing; byte-level BPE needs vocab.json and merges.txt"


def read(folder):
    return read_tokenizer(folder, tokenizer_class=None, ignore=())


@pytest.fixture
def folder(request, subwords, tmp_path):
    return shutil.copytree(subwords[request.param], tmp_path / request.param)


@pytest.mark.parametrize("folder", ["roberta", "albert"], indirect=True)
def test_an_old_tokenizer_json_is_read(folder):
    """Without the kind of its model, merges as texts, Metaspace as it said itself once: so are
    those of the models that were published first."""
    current = read_rules(folder, {})
    old = json.loads(current)
    del old["model"]["type"]
    if folder.name == "roberta":
        old["model"]["merges"] = [" ".join(pair) for pair in old["model"]["merges"]]
    else:
        *_, metaspace = old["pre_tokenizer"]["pretokenizers"]
        for name in ("prepend_scheme", "split"):
            del metaspace[name]
        metaspace |= {"str_rep": "▁", "add_prefix_space": True}
    (folder / "tokenizer.json").write_text(json.dumps(old), "utf-8")
    assert read(folder).vocabulary == rules_vocabulary(current)


@pytest.mark.parametrize(
    ("folder", "file", "data", "sentence"),
    [
        ("roberta", "merges.txt", None, f"merges.txt {NOT_BOTH}"),
        ("roberta", "vocab.json", None, f"vocab.json {NOT_BOTH}"),
        ("roberta", "merges.txt", "", "the tokenizer has no merges; copy its files again"),
        ("roberta", "merges.txt", "a b c\n", "vocab.json or merges.txt is damaged ("),
        ("roberta", "merges.txt", "Ġ zz\n", "vocab.json or merges.txt is damaged ("),
        ("roberta", "vocab.json", POINTER, "vocab.json is not valid JSON ("),
        ("roberta", "vocab.json", '{"a": 0, "b": "1", "c": 1}', f"vocab.json: {NUMBERED}"),
        ("roberta", "vocab.json", '{"a": 0, "b": 2}', f"vocab.json: {NUMBERED}"),
        ("roberta", "vocab.json", '{"a": 0, "b": [1]}', f"vocab.json: {NUMBERED}"),
        ("roberta", "tokenizer.json", '{"model": {"type": "WordLevel"}}', "tokenizer.json is of a "
         "WordLevel tokenizer; known are WordPiece, byte-level BPE and SentencePiece's Unigram"),
        ("roberta", "tokenizer.json", '{"model": {"type": "BPE"}}', "tokenizer.json is damaged"),
        ("roberta", "tokenizer_config.json", '{"mask_token": "[MASK]"}', "tokenizer_config.json: "
         "mask_token is '[MASK]'; expected '<mask>'; to ignore this: "),
        ("modernbert", "tokenizer_config.json", '{"add_prefix_space": true}',
         "tokenizer_config.json: add_prefix_space is true, in tokenizer.json false, which "
         "bert-keras uses; to ignore this: "),
        ("albert", "spiece.model", "", "spiece.model ends after 0 pieces; copy it again"),
        ("albert", "spiece.model", "no model", "spiece.model is damaged ("),
        ("albert", "spiece.model", POINTER, "spiece.model is a Git LFS pointer, not the file its"),
    ],
    indirect=["folder"],
)  # fmt: skip
def test_damaged_tokenizer_files_are_refused(folder, file, data, sentence):
    if data is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(data, "utf-8")
    with pytest.raises(InputError) as error:
        read(folder)
    assert str(error.value).removeprefix(f"{folder}/").startswith(sentence)


@pytest.mark.parametrize("folder", ["albert"], indirect=True)
def test_added_tokens_that_unigram_divides_are_refused(folder):
    """transformers finds "<e1>" in a text as one token."""
    rules = Tokenizer.from_str(read_rules(folder, {}))
    rules.add_tokens(["<e1>"])
    (folder / "tokenizer.json").write_text(rules.to_str(), "utf-8")
    assert "<e1>" in rules.encode("the <e1>").tokens
    with pytest.raises(InputError, match="never divides the added tokens <e1>; bert-keras does"):
        read(folder)
    vocabulary = read_tokenizer(folder, tokenizer_class=None, ignore=("added_tokens",)).vocabulary
    assert "<e1>" not in FastTokenizer(vocabulary).encode("the <e1>").tokens


@pytest.mark.parametrize("folder", ["albert"], indirect=True)
def test_a_sentencepiece_model_truncated_after_a_piece_is_refused(folder):
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    complete = ModelProto.FromString((folder / "spiece.model").read_bytes())
    truncated = ModelProto(pieces=complete.pieces[:300]).SerializeToString()
    assert (folder / "spiece.model").read_bytes().startswith(truncated)
    (folder / "spiece.model").write_bytes(truncated)
    with pytest.raises(InputError, match=r"spiece\.model ends after 300 pieces; copy it"):
        read(folder)

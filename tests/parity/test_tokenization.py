"""Token ids against the tokenizers of the original BERT, of transformers and of SentencePiece.

The first need BERT_ORIGINAL=/path/to/google-research-bert.
"""

import os
import re
import sys
import unicodedata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import tensorflow as tf

from bert_keras.checkpoints.huggingface.tokenizer import read_rules
from bert_keras.downstream.ner.tags import Sentence
from bert_keras.downstream.ner.words import word_tokens
from bert_keras.text.fast_tokenizer import FastTokenizer, rules_vocabulary, write_vocabulary
from bert_keras.text.tokenizer import WordPieceTokenizer, ids_with_masks
from bert_keras.text.vocab import Vocabulary
from tests.multilingual_texts import DECOMPOSED, SENTENCES
from tests.unicode_texts import CHARACTERS, TEXTS, characters_in_any_order

transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
pytestmark = pytest.mark.extra

CLASSES = {
    "roberta": "RobertaTokenizer",
    "albert": "AlbertTokenizer",
    "modernbert": "PreTrainedTokenizerFast",
    "xlm-roberta": "XLMRobertaTokenizerFast",
}
# transformers reads them in a text as tokens.
SPECIAL = re.compile(r"<(s|/s|pad|unk|mask)>|\[(CLS|SEP|MASK|PAD|UNK)\]")


def of_subwords(folder) -> FastTokenizer:
    return FastTokenizer(rules_vocabulary(read_rules(folder, {})))


@pytest.fixture(params=["uncased", "cased", *CLASSES])
def assert_equal(request, subwords, monkeypatch):
    """Returns a function that compares the ids of texts."""
    kind = request.param
    if kind in CLASSES:
        ours = of_subwords(subwords[kind])
        model = getattr(transformers, CLASSES[kind]).from_pretrained(subwords[kind])

        def theirs(texts):
            return model(texts, add_special_tokens=False)["input_ids"]
    else:
        if not (folder := os.environ.get("BERT_ORIGINAL")):
            pytest.skip("needs the original's folder: BERT_ORIGINAL=/path/to/bert")
        monkeypatch.setitem(sys.modules, "tensorflow", tf.compat.v1)  # as the original imports it
        spec = spec_from_file_location("tokenization", Path(folder) / "tokenization.py")
        spec.loader.exec_module(original := module_from_spec(spec))
        path = request.getfixturevalue("shared_data") / f"vocab/bert-base-{kind}-vocab.txt"
        full = original.FullTokenizer(str(path), do_lower_case=kind == "uncased")
        ours = WordPieceTokenizer(Vocabulary.from_file(path), lowercase=kind == "uncased")

        def theirs(texts):
            return [full.convert_tokens_to_ids(full.tokenize(text)) for text in texts]

    def compare(texts):
        if kind in CLASSES:
            texts = [text for text in texts if text and not SPECIAL.search(text)]
        if kind == "albert":  # transformers 5 omits what Lan et al. do with "1,"
            texts = [text for text in texts if not re.search(r"\d,", text)]
        for text, one, other in zip(texts, ours.ids_batch(texts), theirs(texts), strict=True):
            assert one == other, ascii(text)

    return compare


def test_unicode_suite(assert_equal):
    assert_equal([*TEXTS, *SENTENCES, *DECOMPOSED])


@pytest.mark.parametrize("assert_equal", ["uncased", "cased"], indirect=True)
def test_every_character_and_characters_in_any_order(assert_equal):
    """Letters around show whether a character is dropped, a space, alone or part of the word."""
    assert_equal([f"a{character}B {character}" for character in CHARACTERS])
    assert_equal(characters_in_any_order(20_000))


def test_some_real_text(assert_equal, shared_data):
    for name in ("wiki.txt", "books.txt"):
        assert_equal((shared_data / "corpus" / name).read_text("utf-8").split("\n")[::50])


@pytest.mark.slow
def test_all_real_text(assert_equal, shared_data):
    for path in sorted(path for path in (shared_data / "corpus").rglob("*") if path.is_file()):
        assert_equal(path.read_text("utf-8").split("\n"))


def test_kobert_against_sentencepiece(subwords):
    """What KoBERTTokenizer of SKTBrain/KoBERT does; transformers 5 has no class that can.

    It keeps marks of the combining class 0, such as Thai vowels, which ours drops.
    """
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_file=str(subwords["kobert"] / "spiece.model"))
    ours, num_compared = of_subwords(subwords["kobert"]), 0
    assert ours.vocabulary.tokens[:5] == ("[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]")
    for text in [*SENTENCES, *DECOMPOSED, "``따옴표'' 하나"]:
        quoted = text.replace("``", '"').replace("''", '"')
        letters = [c for c in unicodedata.normalize("NFKD", quoted) if not unicodedata.combining(c)]
        if not re.search(r"\d,", text) and "Mn" not in map(unicodedata.category, letters):
            assert ours.ids_batch([text]) == [processor.encode("".join(letters))], text
            num_compared += 1
    assert num_compared > 30


def test_tokenizer_json_of_xlm_roberta(subwords, tmp_path):
    """The file that transformers writes of sentencepiece.bpe.model has the same rules."""
    theirs = transformers.XLMRobertaTokenizerFast.from_pretrained(subwords["xlm-roberta"])
    theirs.save_pretrained(tmp_path)
    assert not (tmp_path / "sentencepiece.bpe.model").exists()
    ours, texts = of_subwords(tmp_path), [*SENTENCES, *DECOMPOSED]
    tokens = ours.vocabulary.tokens
    assert (*tokens[:4], tokens[-1]) == ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    assert ours.ids_batch(texts) == theirs(texts, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("kind", CLASSES)
def test_masks_in_texts(subwords, tmp_path, kind):
    """A mask token includes the space before it, as in the original's fill_mask; transformers 5
    does so only with a tokenizer.json."""
    vocabulary = of_subwords(subwords[kind]).vocabulary
    write_vocabulary(vocabulary, tmp_path)
    theirs = getattr(transformers, CLASSES[kind]).from_pretrained(tmp_path)
    for text in ("the [MASK] License", "[MASK]a", "a [MASK][MASK] b  [MASK] ", "a\n[MASK]\nb"):
        masked = text.replace("[MASK]", vocabulary.specials.tokens[-1])
        expected = theirs(masked, add_special_tokens=False)
        assert ids_with_masks([text], FastTokenizer(vocabulary)) == [expected["input_ids"]], text


def test_words_by_themselves(subwords):
    folder, words = subwords["roberta"], ["You", "may", "'s", "naïve", ",", "東京"]
    theirs = transformers.RobertaTokenizer.from_pretrained(folder, add_prefix_space=True)
    expected = theirs(words, is_split_into_words=True, add_special_tokens=False)["input_ids"]
    ours = word_tokens([Sentence(tuple(words), None, 0, 1)], of_subwords(folder))
    assert [*ours.ids] == expected

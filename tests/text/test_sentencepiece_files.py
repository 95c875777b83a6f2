"""Unigram rules as a model file of SentencePiece, which gives the same ids."""

import pytest
from sentencepiece import SentencePieceProcessor

from bert_keras.checkpoints.huggingface.tokenizer import sentencepiece_model
from bert_keras.text.fast_tokenizer import FastTokenizer, rules_vocabulary
from bert_keras.text.rules import sentencepiece_rules, unigram_rules
from bert_keras.text.sentencepiece_files import sentencepiece_of

TEXTS = [
    "The Licensor grants you",
    "Café ``quoted''  in 1,000 ways",
    "İSTANBUL 東京 ﬁ ß\tx a\x0bb",
    "",
]


@pytest.mark.parametrize("is_uncased", [True, False, None])
def test_sentencepiece_gives_the_ids_of_the_rules(subwords, is_uncased):
    model = sentencepiece_model(subwords["albert"] / "spiece.model")
    if is_uncased is None:
        rules = sentencepiece_rules(model)
    else:
        rules = unigram_rules(model, lowercase=is_uncased, keeps_accents=not is_uncased)
    vocabulary = rules_vocabulary(rules).padded(410)
    tokenizer = FastTokenizer(vocabulary)
    written = SentencePieceProcessor(model_proto=sentencepiece_of(vocabulary).SerializeToString())
    assert written.vocab_size() == 410
    for text in TEXTS:
        assert written.encode(text) == tokenizer.encode(text).ids, text

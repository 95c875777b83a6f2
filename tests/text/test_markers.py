"""Texts with marked entities: tokens as in KLUE-baseline, offsets, and the vocabulary."""

import pytest

from bert_keras.checkpoints.huggingface.rules import read_rules
from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import rules_vocabulary, tokenizer_of
from bert_keras.text.markers import MARKERS, MarkedTokenizer, with_markers
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

WORDS = (
    "조지",
    "해리",
    "##슨",
    "이",
    "##이",
    "쓰",
    "##고",
    "비틀즈",
    "가",
    "##가",
    "a",
    ".",
    "나",
    "<",
)
VOCABULARY = Vocabulary((*SPECIAL_TOKENS, *WORDS, *(f"[unused{n}]" for n in range(6))))


@pytest.fixture
def tokenizer():
    return tokenizer_of(with_markers(VOCABULARY), lowercase=False)


# The first text is the example in klue_baseline/data/klue_re.py.
TEXTS = {
    "<obj>조지 해리슨</obj>이 쓰고 <subj>비틀즈</subj>가": "<obj> 조지 해리 ##슨 </obj> ##이 "
    "쓰 ##고 <subj> 비틀즈 </subj> ##가",
    "<subj>조지</subj> 이 <obj>비틀즈</obj>.": "<subj> 조지 </subj> 이 <obj> 비틀즈 </obj> .",
    "<subj>조지</subj>나": "<subj> 조지 </subj> [UNK]",  # the vocabulary has no ##나
    "<subj>조지</subj>a": "<subj> 조지 </subj> a",
    "<subj>조지</subj><obj>가</obj>": "<subj> 조지 </subj> <obj> 가 </obj>",
    "가<subj>가": "가 <subj> 가",
    "가 < 나": "가 < 나",
    "": "",
}


@pytest.mark.parametrize(("text", "tokens"), TEXTS.items())
def test_markers_are_tokens_and_a_syllable_after_an_end_marker_continues_a_word(
    tokenizer, text, tokens
):
    tokenized = tokenizer.encode(text)
    assert isinstance(tokenizer, MarkedTokenizer)
    assert tokenized.tokens == tokens.split()
    assert tokenizer.ids_batch([text]) == [tokenized.ids]
    assert tokenizer.flat_ids([text])[0].tolist() == tokenized.ids
    for token, (start, end) in zip(tokenized.tokens, tokenized.offsets, strict=True):
        assert token in ("[UNK]", text[start:end], f"##{text[start:end]}")


def test_a_vocabulary_without_markers_reads_them_as_text():
    tokenized = tokenizer_of(VOCABULARY, lowercase=False).encode("<subj>")
    assert tokenized.tokens == ["<", "[UNK]", "[UNK]"]


def test_markers_take_the_first_unused_tokens_and_other_ids_stay():
    marked = with_markers(VOCABULARY)
    size = len(VOCABULARY)
    assert marked.tokens == (*VOCABULARY.tokens[: size - 6], *MARKERS, "[unused4]", "[unused5]")
    assert with_markers(marked) == marked


def test_a_vocabulary_of_another_kind_is_refused(subwords):
    rules = rules_vocabulary(read_rules(subwords["albert"], {}))
    with pytest.raises(InputError, match="only for models with a WordPiece vocabulary"):
        with_markers(rules)

"""Builds the text of a tokenizer.json from learned tokens, of byte-level BPE or Unigram."""

from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE, Unigram
from tokenizers.processors import RobertaProcessing, TemplateProcessing

from bert_keras.text import fast_tokenizer
from bert_keras.text.vocab import WORD_MARK, Specials

EXCLUDED_SCORE = -100.0  # added to the score of a token that must never be chosen


def byte_pair_rules(model: BPE, *, prefixed: bool = False) -> str:
    """Builds the tokenizer.json of a byte-level BPE, as RobertaTokenizer of transformers does."""
    tokenizer = Tokenizer(model)
    _, _, cls, sep, _ = tokens = fast_tokenizer.ROBERTA_SPECIALS.tokens
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefixed)
    tokenizer.decoder = decoders.ByteLevel()
    ids = _add_specials(tokenizer, tokens)
    tokenizer.post_processor = RobertaProcessing(
        (sep, ids[sep]), (cls, ids[cls]), add_prefix_space=prefixed
    )
    return tokenizer.to_str()


def unigram_rules(model: Any, *, lowercase: bool, keeps_accents: bool) -> str:
    """Builds the tokenizer.json of ALBERT's SentencePiece model, as transformers 4 does.

    `model` is SentencePiece's ModelProto, also in the following functions.
    """
    steps = unigram_steps(lowercase=lowercase, keeps_accents=keeps_accents)
    unigrams = _with_divided_commas(model)
    return _unigram_text(unigrams, [*steps, *_normalization(model)], fast_tokenizer.ALBERT_SPECIALS)


def sentencepiece_rules(model: Any) -> str:
    """Builds the tokenizer.json that tokenizes as SentencePiece does: KerasHub's ALBERT."""
    tokens = [(each.piece, each.score) for each in model.pieces]
    unigrams = Unigram(tokens, unk_id=model.trainer_spec.unk_id, byte_fallback=False)
    return _unigram_text(unigrams, _normalization(model), fast_tokenizer.ALBERT_SPECIALS)


def xlm_roberta_rules(model: Any) -> str:
    """Builds the tokenizer.json of a SentencePiece Unigram model, as XLMRobertaTokenizer does.

    The ids equal fairseq's ids: four special tokens precede the tokens of the model, except its
    own first three, and <mask> follows them.
    """
    pad, unk, cls, sep, mask = fast_tokenizer.XLM_ROBERTA_SPECIALS.tokens
    tokens = [(token, 0.0) for token in (cls, pad, sep, unk)]
    tokens += [(each.piece, each.score) for each in model.pieces[3:]]
    unigrams = Unigram([*tokens, (mask, 0.0)], unk_id=3, byte_fallback=False)
    return _unigram_text(unigrams, _normalization(model), fast_tokenizer.XLM_ROBERTA_SPECIALS)


def kobert_rules(model: Any) -> str:
    """Builds the tokenizer.json of KoBERT's SentencePiece Unigram model.

    KoBERTTokenizer (SKTBrain/KoBERT) drops accents with the normal form NFKD, which decomposes
    Hangul, and SentencePiece composes it again. The library `tokenizers` needs NFC for this.
    """
    steps = [*unigram_steps(lowercase=False, keeps_accents=False), normalizers.NFC()]
    unigrams = _with_divided_commas(model)
    return _unigram_text(unigrams, [*steps, *_normalization(model)], fast_tokenizer.KOBERT_SPECIALS)


def _with_divided_commas(model) -> Unigram:
    """Returns the tokens; a token that ends in a digit and a comma gets EXCLUDED_SCORE."""
    # The tokenizers of ALBERT (tokenization.py of Lan et al.) and XLNet separate a comma from the
    # digit before it. With this score, such a token is never chosen.
    tokens = []
    for each in model.pieces:
        is_divided = each.piece.endswith(",") and each.piece[-2:-1].isdigit()
        tokens.append((each.piece, each.score + (EXCLUDED_SCORE if is_divided else 0.0)))
    return Unigram(tokens, unk_id=model.trainer_spec.unk_id, byte_fallback=False)


def _normalization(model) -> list[normalizers.Normalizer]:
    """Returns the normalization of SentencePiece itself."""
    charsmap = model.normalizer_spec.precompiled_charsmap
    steps: list[normalizers.Normalizer] = [normalizers.Replace(Regex(" {2,}"), " ")]
    return [normalizers.Precompiled(charsmap), *steps] if charsmap else steps


def _unigram_text(model: Unigram, steps: list[normalizers.Normalizer], specials: Specials) -> str:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(steps)
    space = pre_tokenizers.Metaspace(replacement=WORD_MARK, prepend_scheme="always")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), space])
    tokenizer.decoder = decoders.Metaspace(replacement=WORD_MARK, prepend_scheme="always")
    ids = _add_specials(tokenizer, specials.tokens)
    _, _, cls, sep, _ = specials.tokens
    separators, segment = " ".join(specials.num_separators * [f"{sep}:0"]), specials.second_segment
    tokenizer.post_processor = TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {separators} $B:{segment} {sep}:{segment}",
        special_tokens=[(token, ids[token]) for token in (cls, sep)],
    )
    return tokenizer.to_str()


def unigram_steps(*, lowercase: bool, keeps_accents: bool) -> list[normalizers.Normalizer]:
    """Returns the normalization that ALBERT applies before SentencePiece normalizes."""
    quotes = ("``", "''")
    steps: list[normalizers.Normalizer] = [normalizers.Replace(each, '"') for each in quotes]
    if not keeps_accents:
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    return [*steps, normalizers.Lowercase()] if lowercase else steps


def _add_specials(tokenizer: Tokenizer, tokens: tuple[str, ...]) -> dict:
    """Registers the special tokens and returns their ids; KeyError if one is not a token."""
    vocabulary = tokenizer.get_vocab()
    ids = {token: vocabulary[token] for token in tokens}
    *others, mask = tokens
    added = [AddedToken(token, special=True, normalized=False) for token in others]
    tokenizer.add_special_tokens([*added, AddedToken(mask, special=True, lstrip=True)])
    return ids

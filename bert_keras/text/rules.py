"""Builds the text of a tokenizer.json of RoBERTa's or ALBERT's kind from learned tokens."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE, Unigram
from tokenizers.processors import RobertaProcessing, TemplateProcessing

from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import ALBERT_SPECIALS, ROBERTA_SPECIALS

EXCLUDED_SCORE = -100.0  # added to the score of a token that must never be chosen


def byte_pair_rules(model: BPE, *, prefixed: bool = False, file: str = "the vocabulary") -> str:
    """Builds the tokenizer.json of a byte-level BPE, as RobertaTokenizer of transformers does.

    Args:
        model: The tokens and merges.
        prefixed: Whether a space is added before each text.
        file: What an error message names as the source of the tokens.

    Returns:
        The text of the tokenizer.json.

    Raises:
        InputError: `model` lacks a special token of RoBERTa.
    """
    tokenizer = Tokenizer(model)
    _, _, cls, sep, _ = tokens = ROBERTA_SPECIALS.tokens
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefixed)
    tokenizer.decoder = decoders.ByteLevel()
    ids = _add_specials(tokenizer, tokens, file=file)
    tokenizer.post_processor = RobertaProcessing(
        (sep, ids[sep]), (cls, ids[cls]), add_prefix_space=prefixed
    )
    return tokenizer.to_str()


def unigram_rules(
    model, *, lowercase: bool, keeps_accents: bool, file: str = "the vocabulary"
) -> str:
    """Builds the tokenizer.json of a SentencePiece Unigram model, as transformers 4 does.

    ALBERT's tokenization.py (Lan et al.) separates a comma from the digit before it. To get the
    same result, tokens that end in a digit and a comma get a score so low that they are never
    chosen.

    Args:
        model: SentencePiece's ModelProto.
        lowercase: Whether text is lower-cased.
        keeps_accents: Whether accents are kept.
        file: What an error message names as the source of the tokens.

    Returns:
        The text of the tokenizer.json.

    Raises:
        InputError: `model` lacks a special token of ALBERT.
    """
    tokens = [(each.piece, each.score + _comma_score(each.piece)) for each in model.pieces]
    steps = unigram_steps(lowercase=lowercase, keeps_accents=keeps_accents)
    return _unigram_text(model, tokens, steps, file=file)


def sentencepiece_rules(model, *, file: str = "the vocabulary") -> str:
    """Builds the tokenizer.json that tokenizes as SentencePiece itself does, as KerasHub's ALBERT.

    Args:
        model: SentencePiece's ModelProto.
        file: What an error message names as the source of the tokens.

    Returns:
        The text of the tokenizer.json.

    Raises:
        InputError: `model` lacks a special token of ALBERT.
    """
    return _unigram_text(model, [(each.piece, each.score) for each in model.pieces], [], file=file)


def _unigram_text(
    model,
    tokens: list[tuple[str, float]],
    steps: list[normalizers.Normalizer],
    *,
    file: str,
) -> str:
    """Returns the tokenizer.json of a Unigram model whose own normalization follows `steps`."""
    tokenizer = Tokenizer(Unigram(tokens, unk_id=model.trainer_spec.unk_id, byte_fallback=False))
    if charsmap := model.normalizer_spec.precompiled_charsmap:
        steps.append(normalizers.Precompiled(charsmap))
    steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    tokenizer.normalizer = normalizers.Sequence(steps)
    space = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), space])
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    ids = _add_specials(tokenizer, ALBERT_SPECIALS.tokens, file=file)
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer.to_str()


def unigram_steps(*, lowercase: bool, keeps_accents: bool) -> list[normalizers.Normalizer]:
    """Returns the normalization that ALBERT applies before that of SentencePiece."""
    steps: list[normalizers.Normalizer] = [
        normalizers.Replace("``", '"'),
        normalizers.Replace("''", '"'),
    ]
    if not keeps_accents:
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    return [*steps, normalizers.Lowercase()] if lowercase else steps


def _comma_score(token: str) -> float:
    return EXCLUDED_SCORE if len(token) > 1 and token[-1] == "," and token[-2].isdigit() else 0.0


def _add_specials(tokenizer: Tokenizer, tokens: tuple[str, ...], *, file: str) -> dict[str, int]:
    """Registers the special tokens and returns their ids.

    Raises InputError if the vocabulary lacks one of them.
    """
    ids = {
        token: token_id
        for token in tokens
        if (token_id := tokenizer.token_to_id(token)) is not None
    }
    if missing := [token for token in tokens if token not in ids]:
        raise InputError(f"{file} lacks {', '.join(missing)}; expected {' '.join(tokens)}")
    *others, mask = tokens
    added = [AddedToken(token, special=True, normalized=False) for token in others]
    tokenizer.add_special_tokens([*added, AddedToken(mask, special=True, lstrip=True)])
    return ids

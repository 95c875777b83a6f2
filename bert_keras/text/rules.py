"""Builds the text of a tokenizer.json of RoBERTa's or ALBERT's kind from learned tokens."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE, Unigram
from tokenizers.processors import RobertaProcessing, TemplateProcessing

from bert_keras.errors import InputError
from bert_keras.text.fast_tokenizer import SPECIALS

OTHER_SCORE = -100.0


def byte_pair_rules(model: BPE, *, prefixed: bool = False, file: str = "the vocabulary") -> str:
    """As RobertaTokenizer of transformers makes them; `file` is what an InputError names."""
    tokenizer = Tokenizer(model)
    _, _, cls, sep, _ = pieces = SPECIALS["BPE"].pieces
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefixed)
    tokenizer.decoder = decoders.ByteLevel()
    ids = _add_specials(tokenizer, pieces, file=file)
    tokenizer.post_processor = RobertaProcessing(
        (sep, ids[sep]), (cls, ids[cls]), add_prefix_space=prefixed
    )
    return tokenizer.to_str()


def unigram_rules(
    model, *, lowercase: bool, keeps_accents: bool, file: str = "the vocabulary"
) -> str:
    """As transformers 4 makes a tokenizer.json of SentencePiece's `model`, a ModelProto. Lan et
    al.'s tokenization.py takes a comma from the digit before it; so it is with pieces of both that
    are never the best."""
    pieces = [(each.piece, each.score + _comma(each.piece)) for each in model.pieces]
    tokenizer = Tokenizer(Unigram(pieces, unk_id=model.trainer_spec.unk_id, byte_fallback=False))
    steps = unigram_steps(lowercase=lowercase, keeps_accents=keeps_accents)
    if charsmap := model.normalizer_spec.precompiled_charsmap:
        steps.append(normalizers.Precompiled(charsmap))
    steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    tokenizer.normalizer = normalizers.Sequence(steps)
    space = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), space])
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    ids = _add_specials(tokenizer, SPECIALS["Unigram"].pieces, file=file)
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(piece, ids[piece]) for piece in ("[CLS]", "[SEP]")],
    )
    return tokenizer.to_str()


def unigram_steps(*, lowercase: bool, keeps_accents: bool) -> list[normalizers.Normalizer]:
    """What ALBERT does with a text before SentencePiece does."""
    steps: list[normalizers.Normalizer] = [
        normalizers.Replace("``", '"'),
        normalizers.Replace("''", '"'),
    ]
    if not keeps_accents:
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    return [*steps, normalizers.Lowercase()] if lowercase else steps


def _comma(piece: str) -> float:
    return OTHER_SCORE if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit() else 0.0


def _add_specials(tokenizer: Tokenizer, pieces: tuple[str, ...], *, file: str) -> dict[str, int]:
    """Returns their ids. Raises InputError where the vocabulary lacks one."""
    found = {piece: tokenizer.token_to_id(piece) for piece in pieces}
    ids = {piece: number for piece, number in found.items() if number is not None}
    if missing := [piece for piece in pieces if piece not in ids]:
        raise InputError(f"{file} lacks {', '.join(missing)}; expected {' '.join(pieces)}")
    *others, mask = pieces
    tokens = [AddedToken(piece, special=True, normalized=False) for piece in others]
    tokenizer.add_special_tokens([*tokens, AddedToken(mask, special=True, lstrip=True)])
    return ids

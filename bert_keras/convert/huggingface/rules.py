"""The tokenizer's files of a RoBERTa or an ALBERT in, the text of a tokenizer.json out.

tokenizer.json               all rules, as the library `tokenizers` saves them
vocab.json, merges.txt       byte-level BPE, as RoBERTa was published
spiece.model                 SentencePiece's Unigram, as ALBERT was published
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE, Unigram
from tokenizers.processors import RobertaProcessing, TemplateProcessing

from bert_keras.convert.lfs_pointer import refuse_pointer
from bert_keras.errors import InputError
from bert_keras.storage import json_object
from bert_keras.text.fast_tokenizer import SPECIALS
from bert_keras.text.vocab import in_order_of_ids

WHOLE, PIECES, MERGES, MODEL = "tokenizer.json", "vocab.json", "merges.txt", "spiece.model"
LISTED = "vocab.txt"
UNIGRAM = 1  # of SentencePiece's kinds of models
OTHER_SCORE = -100.0


def read_rules(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """None where the folder's tokenizer is WordPiece, or there is none. `settings` is what
    tokenizer_config.json says."""
    if (folder / WHOLE).is_file():
        model = json_object(folder / WHOLE).get("model") or {}
        if model.get("type", _untold(model)) in SPECIALS:
            return (folder / WHOLE).read_text("utf-8")
        return None
    if (folder / MODEL).is_file():
        return _unigram(folder / MODEL, settings)
    missing = [name for name in (PIECES, MERGES) if not (folder / name).is_file()]
    if not missing:
        return _byte_pair(folder, settings)
    if len(missing) == 1 and not (folder / LISTED).is_file():
        raise InputError(f"{missing[0]} is missing; byte-level BPE is {PIECES} and {MERGES}")
    return None


def _untold(model: Mapping[str, Any]) -> str:
    """Which it is: files of old, RoBERTa's among them, do not say."""
    return "BPE" if "merges" in model else "Unigram" if "unk_id" in model else "WordPiece"


def _byte_pair(folder: Path, settings: Mapping[str, Any]) -> str:
    """As RobertaTokenizer of transformers makes them."""
    prefixed = settings.get("add_prefix_space", False)
    in_order_of_ids(json_object(folder / PIECES), file=PIECES)
    try:
        tokenizer = Tokenizer(BPE.from_file(str(folder / PIECES), str(folder / MERGES)))
    except Exception as error:  # the library raises no other
        raise InputError(f"{PIECES} or {MERGES} is damaged ({error}); copy both anew") from error
    _, _, cls, sep, _ = pieces = SPECIALS["BPE"].pieces
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefixed)
    tokenizer.decoder = decoders.ByteLevel()
    _add_specials(tokenizer, pieces, file=PIECES)
    ends = ((sep, tokenizer.token_to_id(sep)), (cls, tokenizer.token_to_id(cls)))
    tokenizer.post_processor = RobertaProcessing(*ends, add_prefix_space=prefixed)
    return tokenizer.to_str()


def _unigram(path: Path, settings: Mapping[str, Any]) -> str:
    """As transformers 4 makes a tokenizer.json of it. Lan et al.'s tokenization.py takes a comma
    from the digit before it; so it is with pieces of both that are never the best."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    model = ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf's own, of which there are two
        refuse_pointer(path)
        raise InputError(f"{MODEL} is damaged ({error}); copy it anew") from error
    if not (model.pieces and model.HasField("trainer_spec") and model.HasField("normalizer_spec")):
        raise InputError(f"{MODEL} is cut off behind {len(model.pieces):,} pieces; copy it anew")
    if model.trainer_spec.model_type != UNIGRAM:
        raise InputError(f"{MODEL} is not of SentencePiece's unigram kind, which ALBERT's is")
    pieces = [(each.piece, each.score + _comma(each.piece)) for each in model.pieces]
    tokenizer = Tokenizer(Unigram(pieces, unk_id=model.trainer_spec.unk_id, byte_fallback=False))
    steps = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not settings.get("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if settings.get("do_lower_case", True):
        steps.append(normalizers.Lowercase())
    if charsmap := model.normalizer_spec.precompiled_charsmap:
        steps.append(normalizers.Precompiled(charsmap))
    steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    tokenizer.normalizer = normalizers.Sequence(steps)
    space = {"replacement": "▁", "prepend_scheme": "always"}
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(**space)]
    )
    tokenizer.decoder = decoders.Metaspace(**space)
    specials = SPECIALS["Unigram"].pieces
    _add_specials(tokenizer, specials, file=MODEL)
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(piece, tokenizer.token_to_id(piece)) for piece in specials[2:4]],
    )
    return tokenizer.to_str()


def _comma(piece: str) -> float:
    return OTHER_SCORE if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit() else 0.0


def _add_specials(tokenizer: Tokenizer, pieces: tuple[str, ...], *, file: str) -> None:
    if missing := [piece for piece in pieces if tokenizer.token_to_id(piece) is None]:
        raise InputError(f"{file} lacks {', '.join(missing)}; expected {' '.join(pieces)}")
    *others, mask = pieces
    tokens = [AddedToken(piece, special=True, normalized=False) for piece in others]
    tokenizer.add_special_tokens([*tokens, AddedToken(mask, special=True, lstrip=True)])

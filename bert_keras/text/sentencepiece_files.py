"""Converts the rules of a Unigram tokenizer to a model file of SentencePiece."""

import base64
import json
import sys
import unicodedata
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from tokenizers import Tokenizer
from tokenizers.normalizers import Normalizer

from bert_keras.text.vocab import Vocabulary

_SPACES = {"String": " "}, {"Regex": " {2,}"}  # patterns whose replacement is SentencePiece's own


def sentencepiece_of(vocabulary: Vocabulary):
    """Returns SentencePiece's ModelProto with the tokens and rules of a Unigram vocabulary.

    SentencePiece replaces sequences of characters by a table. The table has one entry for each
    character that the rules normalize, and one for its canonical decomposition.

    Args:
        vocabulary: A vocabulary with the rules of a Unigram tokenizer.json.
    """
    protobuf: Any = import_module("sentencepiece.sentencepiece_model_pb2")
    rules, kinds = json.loads(vocabulary.rules), protobuf.ModelProto.SentencePiece.Type
    specials = dict.fromkeys(vocabulary.specials.tokens, kinds.Value("CONTROL"))
    specials[vocabulary.tokens[vocabulary.unk_id]] = kinds.Value("UNKNOWN")
    model = protobuf.ModelProto(
        trainer_spec={
            "model_type": 1,
            "vocab_size": len(vocabulary),
            "unk_id": vocabulary.unk_id,
            "unk_piece": vocabulary.tokens[vocabulary.unk_id],
            "pad_id": vocabulary.pad_id,
            "pad_piece": vocabulary.tokens[vocabulary.pad_id],
            "bos_id": -1,
            "eos_id": -1,
        },
        normalizer_spec={"name": "user_defined", "precompiled_charsmap": _charsmap(rules)},
    )
    scores = [score for _, score in rules["model"]["vocab"]]
    for number, token in enumerate(vocabulary.tokens):
        is_scored = number < len(scores)  # others are tokens that `padded` appended
        kind = specials.get(token, kinds.Value("NORMAL" if is_scored else "UNUSED"))
        model.pieces.add(piece=token, score=scores[number] if is_scored else 0.0, type=kind)
    return model


def _charsmap(rules: dict) -> bytes:
    """Returns the table of replacements that is equivalent to the normalization of the rules."""
    from sentencepiece import SentencePieceNormalizer

    steps = rules["normalizer"]["normalizers"]
    others = [step for step in steps if step.get("pattern") not in _SPACES]
    if len(others) == 1 and others[0]["type"] == "Precompiled":
        return base64.b64decode(others[0]["precompiled_charsmap"])
    protobuf: Any = import_module("sentencepiece.sentencepiece_model_pb2")
    replacements = dict(_replacements(Tokenizer.from_str(json.dumps(rules)).normalizer))
    compiled = SentencePieceNormalizer(norm_map=[*replacements.items()])
    spec = protobuf.NormalizerSpec.FromString(compiled.serialized_normalizer_spec())
    return spec.precompiled_charsmap


def _replacements(normalizer: Normalizer) -> Iterator[tuple[str, str]]:
    """Yields each character or sequence that the rules change, and its replacement."""
    texts = ["``", "''"]
    for point in range(1, sys.maxunicode + 1):
        if not 0xD800 <= point < 0xE000:  # no surrogate
            texts += {chr(point): None, unicodedata.normalize("NFD", chr(point)): None}
    for text in texts:
        # Rules split texts at every white space, SentencePiece only at the space.
        normalized = normalizer.normalize_str(text)
        replacement = "".join(" " if each.isspace() else each for each in normalized)
        if replacement != text:
            yield text, replacement

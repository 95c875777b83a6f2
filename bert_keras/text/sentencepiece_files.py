"""Converts the rules of a Unigram tokenizer to a model file of SentencePiece."""

import base64
import io
import json
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.normalizers import Normalizer

from bert_keras.text.vocab import Vocabulary

_SPACES = {"String": " "}, {"Regex": " {2,}"}  # patterns whose replacement is SentencePiece's own
_SURROGATES = range(0xD800, 0xE000)


def sentencepiece_of(vocabulary: Vocabulary):
    """Returns SentencePiece's ModelProto with the tokens and rules of a Unigram vocabulary.

    SentencePiece replaces sequences of characters by a table. The table has one entry for each
    character that the rules normalize, and one for its canonical decomposition.

    Args:
        vocabulary: A vocabulary with the rules of a Unigram tokenizer.json.
    """
    from sentencepiece import sentencepiece_model_pb2 as protobuf

    model = protobuf.ModelProto()  # pyright: ignore[reportAttributeAccessIssue]
    kinds = protobuf.ModelProto.SentencePiece.Type  # pyright: ignore[reportAttributeAccessIssue]
    rules = json.loads(vocabulary.rules)
    scores = [score for _, score in rules["model"]["vocab"]]
    for token, score in zip_longest(vocabulary.tokens, scores, fillvalue=0.0):
        is_special = token in vocabulary.specials.tokens
        kind = kinds.Value("CONTROL" if is_special else "NORMAL")
        model.pieces.add(piece=token, score=score, type=kind)
    for unused in model.pieces[len(scores) :]:  # tokens that `padded` appended
        unused.type = kinds.Value("UNUSED")
    model.pieces[vocabulary.unk_id].type = kinds.Value("UNKNOWN")
    model.trainer_spec.model_type = 1
    model.trainer_spec.vocab_size = len(vocabulary)
    ids = {"unk_id": vocabulary.unk_id, "pad_id": vocabulary.pad_id, "bos_id": -1, "eos_id": -1}
    for name, token_id in ids.items():
        setattr(model.trainer_spec, name, token_id)
    model.trainer_spec.unk_piece = vocabulary.tokens[vocabulary.unk_id]
    model.trainer_spec.pad_piece = vocabulary.tokens[vocabulary.pad_id]
    model.normalizer_spec.name = "user_defined"
    model.normalizer_spec.precompiled_charsmap = _charsmap(rules)
    return model


def _charsmap(rules: dict) -> bytes:
    """Returns the table of replacements that is equivalent to the normalization of the rules."""
    steps = rules["normalizer"]["normalizers"]
    others = [step for step in steps if step.get("pattern") not in _SPACES]
    if len(others) == 1 and others[0]["type"] == "Precompiled":
        return base64.b64decode(others[0]["precompiled_charsmap"])
    normalizer = Tokenizer.from_str(json.dumps(rules)).normalizer
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rules.tsv"
        path.write_text("".join(_replacement_lines(normalizer)), "ascii")
        return _compiled(path)


def _replacement_lines(normalizer: Normalizer) -> Iterator[str]:
    """Yields the lines of SentencePiece's normalization_rule_tsv."""
    texts = ["``", "''"]
    for point in range(1, sys.maxunicode + 1):
        if point not in _SURROGATES:
            character = chr(point)
            decomposed = unicodedata.normalize("NFD", character)
            texts += [character] if decomposed == character else [character, decomposed]
    for text in texts:
        # Rules split texts at every white space, SentencePiece only at the space.
        normalized = normalizer.normalize_str(text)
        replacement = "".join(" " if each.isspace() else each for each in normalized)
        if replacement != text:
            columns = (" ".join(f"{ord(each):X}" for each in part) for part in (text, replacement))
            yield "\t".join(columns) + "\n"


def _compiled(path: Path) -> bytes:
    """Compiles a normalization_rule_tsv; SentencePiece does so only when it trains a model."""
    from sentencepiece import SentencePieceTrainer
    from sentencepiece import sentencepiece_model_pb2 as protobuf

    output = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d e"]),
        model_writer=output,
        vocab_size=9,
        hard_vocab_limit=False,
        normalization_rule_tsv=str(path),
        minloglevel=2,
    )
    model = protobuf.ModelProto.FromString(output.getvalue())  # pyright: ignore[reportAttributeAccessIssue]
    return model.normalizer_spec.precompiled_charsmap

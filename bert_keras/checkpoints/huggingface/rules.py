"""Reads the tokenizer of a RoBERTa or an ALBERT from a folder as the text of a tokenizer.json.

tokenizer.json               all rules, in the format of the library `tokenizers`
vocab.json, merges.txt       byte-level BPE, the files of the published RoBERTa
spiece.model                 SentencePiece Unigram, the file of the published ALBERT
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers.models import BPE

from bert_keras.checkpoints.tensors import refuse_pointer
from bert_keras.errors import InputError
from bert_keras.storage import json_object
from bert_keras.text.fast_tokenizer import SPECIALS
from bert_keras.text.rules import byte_pair_rules, unigram_rules
from bert_keras.text.vocab import in_order_of_ids

WHOLE, PIECES, MERGES, MODEL = "tokenizer.json", "vocab.json", "merges.txt", "spiece.model"
LISTED = "vocab.txt"
UNIGRAM = 1  # number of the Unigram model in SentencePiece's TrainerSpec.ModelType


def read_rules(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """Returns the rules of a BPE or Unigram tokenizer.

    Args:
        folder: The folder with the files of the tokenizer.
        settings: The values of tokenizer_config.json.

    Returns:
        The text of a tokenizer.json, or None if the tokenizer is WordPiece or the folder has none.

    Raises:
        InputError: A file is missing, damaged, or of another kind of tokenizer.
    """
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
    """Infers the kind of a tokenizer whose tokenizer.json does not state it.

    Old files, such as RoBERTa's, do not contain the type of the model.
    """
    return "BPE" if "merges" in model else "Unigram" if "unk_id" in model else "WordPiece"


def _byte_pair(folder: Path, settings: Mapping[str, Any]) -> str:
    in_order_of_ids(json_object(folder / PIECES), file=PIECES)
    try:
        model = BPE.from_file(str(folder / PIECES), str(folder / MERGES))
    except Exception as error:  # the library raises plain Exception
        raise InputError(f"{PIECES} or {MERGES} is damaged ({error}); copy both anew") from error
    return byte_pair_rules(model, prefixed=settings.get("add_prefix_space", False), file=PIECES)


def _unigram(path: Path, settings: Mapping[str, Any]) -> str:
    # The type checker does not find the class, which protobuf creates on import.
    from sentencepiece.sentencepiece_model_pb2 import (
        ModelProto,  # pyright: ignore[reportAttributeAccessIssue]
    )

    model = ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf raises one of two error classes of its own
        refuse_pointer(path)
        raise InputError(f"{MODEL} is damaged ({error}); copy it anew") from error
    if not (model.pieces and model.HasField("trainer_spec") and model.HasField("normalizer_spec")):
        raise InputError(f"{MODEL} is cut off behind {len(model.pieces):,} pieces; copy it anew")
    if model.trainer_spec.model_type != UNIGRAM:
        raise InputError(f"{MODEL} is not of SentencePiece's unigram kind, which ALBERT's is")
    return unigram_rules(
        model,
        lowercase=settings.get("do_lower_case", True),
        keeps_accents=settings.get("keep_accents", False),
        file=MODEL,
    )

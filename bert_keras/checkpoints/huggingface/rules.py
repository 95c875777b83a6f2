"""Reads the tokenizer of a RoBERTa or an ALBERT from a folder as the text of a tokenizer.json.

tokenizer.json               all rules, in the format of the library `tokenizers`
vocab.json, merges.txt       byte-level BPE, the files of the published RoBERTa
spiece.model                 SentencePiece Unigram, the file of the published ALBERT
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers.models import BPE

from bert_keras.checkpoints.tensors import refuse_lfs_pointer
from bert_keras.errors import InputError
from bert_keras.storage import json_object
from bert_keras.text.fast_tokenizer import SPECIALS
from bert_keras.text.rules import byte_pair_rules, unigram_rules
from bert_keras.text.vocab import in_order_of_ids

TOKENIZER, TOKENS, MERGES, MODEL = "tokenizer.json", "vocab.json", "merges.txt", "spiece.model"
VOCABULARY = "vocab.txt"
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
    if (folder / TOKENIZER).is_file():
        model = json_object(folder / TOKENIZER).get("model") or {}
        # Old files, such as RoBERTa's, do not state the type of the model.
        default = "BPE" if "merges" in model else "Unigram" if "unk_id" in model else "WordPiece"
        if model.get("type", default) in SPECIALS:
            return (folder / TOKENIZER).read_text("utf-8")
        return None
    if (folder / MODEL).is_file():
        return _unigram(folder / MODEL, settings)
    missing = [name for name in (TOKENS, MERGES) if not (folder / name).is_file()]
    if not missing:
        return _byte_pair(folder, settings)
    if len(missing) == 1 and not (folder / VOCABULARY).is_file():
        raise InputError(f"{missing[0]} is missing; byte-level BPE needs {TOKENS} and {MERGES}")
    return None


def _byte_pair(folder: Path, settings: Mapping[str, Any]) -> str:
    in_order_of_ids(json_object(folder / TOKENS), file=TOKENS)
    try:
        model = BPE.from_file(str(folder / TOKENS), str(folder / MERGES))
    except Exception as error:  # the library raises plain Exception
        raise InputError(f"{TOKENS} or {MERGES} is damaged ({error}); copy both again") from error
    return byte_pair_rules(model, prefixed=settings.get("add_prefix_space", False), file=TOKENS)


def _unigram(path: Path, settings: Mapping[str, Any]) -> str:
    from sentencepiece import sentencepiece_model_pb2 as protobuf

    # The type checker does not find the class, which protobuf creates on import.
    model = protobuf.ModelProto()  # pyright: ignore[reportAttributeAccessIssue]
    try:
        model.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf raises one of two error classes of its own
        refuse_lfs_pointer(path)
        raise InputError(f"{MODEL} is damaged ({error}); copy it again") from error
    if not (model.pieces and model.HasField("trainer_spec") and model.HasField("normalizer_spec")):
        raise InputError(f"{MODEL} ends after {len(model.pieces):,} pieces; copy it again")
    if model.trainer_spec.model_type != UNIGRAM:
        raise InputError(f"{MODEL} is not a Unigram model; expected SentencePiece's Unigram")
    return unigram_rules(
        model,
        lowercase=settings.get("do_lower_case", True),
        keeps_accents=settings.get("keep_accents", False),
        file=MODEL,
    )

"""Reads the byte-level BPE or Unigram tokenizer of a folder as the text of a tokenizer.json.

tokenizer.json               all rules, in the format of the library `tokenizers`
vocab.json, merges.txt       byte-level BPE, the files of the published RoBERTa
spiece.model                 SentencePiece Unigram, the file of the published ALBERT and KoBERT
sentencepiece.bpe.model      SentencePiece Unigram, the file of the published XLM-RoBERTa
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers.models import BPE

from bert_keras.checkpoints.tensors import refuse_lfs_pointer
from bert_keras.errors import InputError
from bert_keras.files import json_object
from bert_keras.text.fast_tokenizer import KOBERT_SPECIALS, SPECIALS
from bert_keras.text.rules import (
    byte_pair_rules,
    kobert_rules,
    unigram_rules,
    xlm_roberta_rules,
)
from bert_keras.text.vocab import in_order_of_ids

TOKENIZER, TOKENS, MERGES, MODEL = "tokenizer.json", "vocab.json", "merges.txt", "spiece.model"
XLM_ROBERTA_MODEL, VOCABULARY = "sentencepiece.bpe.model", "vocab.txt"
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
    if (folder / XLM_ROBERTA_MODEL).is_file():
        model = sentencepiece_model(folder / XLM_ROBERTA_MODEL)
        return xlm_roberta_rules(model, file=XLM_ROBERTA_MODEL)
    if (folder / MODEL).is_file():
        model = sentencepiece_model(folder / MODEL)
        if {*KOBERT_SPECIALS.tokens} <= {each.piece for each in model.pieces}:
            return kobert_rules(model, file=MODEL)
        return unigram_rules(
            model,
            lowercase=settings.get("do_lower_case", True),
            keeps_accents=settings.get("keep_accents", False),
            file=MODEL,
        )
    missing = [name for name in (TOKENS, MERGES) if not (folder / name).is_file()]
    if not missing:
        prefixed = settings.get("add_prefix_space", False)
        model = byte_pair_model(folder / TOKENS, folder / MERGES)
        return byte_pair_rules(model, prefixed=prefixed, file=TOKENS)
    if len(missing) == 1 and not (folder / VOCABULARY).is_file():
        raise InputError(f"{missing[0]} is missing; byte-level BPE needs {TOKENS} and {MERGES}")
    return None


def byte_pair_model(tokens: Path, merges: Path) -> BPE:
    """Reads a byte-level BPE from the file of its tokens and that of its merges.

    Raises:
        InputError: A file is damaged.
    """
    in_order_of_ids(json_object(tokens), file=tokens.name)
    try:
        return BPE.from_file(str(tokens), str(merges))
    except Exception as error:  # the library raises plain Exception
        raise InputError(
            f"{tokens.name} or {merges.name} is damaged ({error}); copy both again"
        ) from error


def sentencepiece_model(path: Path):
    """Reads SentencePiece's ModelProto of a Unigram model.

    Raises:
        InputError: The file is damaged, or it is of another kind of model.
    """
    from sentencepiece import sentencepiece_model_pb2 as protobuf

    # The type checker does not find the class, which protobuf creates on import.
    model = protobuf.ModelProto()  # pyright: ignore[reportAttributeAccessIssue]
    try:
        model.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf raises one of two error classes of its own
        refuse_lfs_pointer(path)
        raise InputError(f"{path.name} is damaged ({error}); copy it again") from error
    if not (model.pieces and model.HasField("trainer_spec") and model.HasField("normalizer_spec")):
        raise InputError(f"{path.name} ends after {len(model.pieces):,} pieces; copy it again")
    if model.trainer_spec.model_type != UNIGRAM:
        raise InputError(f"{path.name} is not a Unigram model; expected SentencePiece's Unigram")
    return model

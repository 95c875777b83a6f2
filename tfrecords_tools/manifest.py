"""The manifest beside record files: its name, and what it says about shards, read and checked.

`build` writes it last; a folder that has one is complete. `check` holds the files against it.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from bert_keras.data.schema import PretrainingSchema
from bert_keras.errors import InputError
from bert_keras.storage import json_object
from bert_keras.text.fast_tokenizer import vocabulary_file
from bert_keras.text.vocab import Vocabulary

MANIFEST = "manifest.json"
FORMAT = 2
NEXT_SENTENCE = ("true next", "random next")  # labels 0 and 1


@dataclass(frozen=True)
class Shard:
    """What the manifest promises of one record file."""

    split: str
    file: str
    records: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The part of a manifest that record files are held against."""

    path: Path
    shards: dict[str, Shard]  # by the name of the file
    schema: PretrainingSchema
    vocabulary_sha256: str
    objective: str

    @classmethod
    def of_folder(cls, folder: str | os.PathLike) -> "Manifest | None":
        """None where the folder has none; InputError where it is not what `build` writes."""
        path = Path(folder) / MANIFEST
        if not path.is_file():
            return None
        values = json_object(path)
        if values.get("format") != FORMAT:
            raise InputError(
                f"{path} has the format {values.get('format')}; expected {FORMAT}: another version "
                "of bert-tfrecords wrote it"
            )
        try:
            shards = [
                Shard(split=split, **{name: shard[name] for name in _PROMISED})
                for split, counts in values["splits"].items()
                for shard in counts["shards"]
            ]
            return cls(
                path=path,
                shards={shard.file: shard for shard in shards},
                schema=PretrainingSchema(**values["schema"]),
                vocabulary_sha256=values["vocabulary"]["sha256"],
                objective=values["settings"].get("objective", "nsp"),  # the original has no other
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not what bert-tfrecords build wrote") from error

    def is_vocabulary(self, vocabulary: Vocabulary) -> bool:
        """Whether the records were written with this one."""
        return self.vocabulary_sha256 == vocabulary_sha256(vocabulary)


_LABELS = {"nsp": NEXT_SENTENCE, "sop": ("true order", "changed order")}
_PROMISED = ("file", "records", "bytes", "sha256")


def label_words(file: str | os.PathLike) -> tuple[str, str]:
    """What the labels 0 and 1 of this record file stand for; without a manifest as in BERT's."""
    manifest = Manifest.of_folder(Path(file).parent)
    objective = manifest.objective if manifest else "nsp"
    return _LABELS.get(objective, NEXT_SENTENCE)


def vocabulary_sha256(vocabulary: Vocabulary) -> str:
    """The digest of its file."""
    return hashlib.sha256(vocabulary_file(vocabulary)[1].encode()).hexdigest()

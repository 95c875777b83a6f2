"""Fuzz targets for what comes from outside, with Atheris: `pip install -e ".[fuzz]"`.

    python tests/attack/fuzz.py http -max_total_time=3600 corpus/http

The targets are http, safetensors, tokenizer, records and vocabulary. Input that is refused as users
are refused is no find; anything else that is raised stops the run, and its input is written.
"""

import contextlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris
import numpy as np
from safetensors.numpy import save
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

with atheris.instrument_imports(include=["bert_keras"]):
    from bert_keras.checkpoints.huggingface.tokenizer import read_tokenizer
    from bert_keras.checkpoints.tensors import stored_tensors
    from bert_keras.data.record_file import frame, parse_features, read_records
    from bert_keras.errors import InputError
    from bert_keras.serving.embeddings_api import read_request
    from bert_keras.serving.rest_api import Refusal, read_call, read_document, read_predict
    from bert_keras.text.vocab import Vocabulary

FOLDER = Path(tempfile.mkdtemp())
SIGNATURES = {
    "serving_default": {"text": "string"},
    "pairs": {"text": "string", "text_pair": "string"},
    "tensors": {"input_ids": "int32", "input_mask": "int32", "weights": "float"},
}
# What `open_checkpoint` reports as a damaged file.
DAMAGE = (AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)


def http(data: bytes) -> None:
    for read in (
        lambda: read_predict(read_document(data), SIGNATURES),
        lambda: read_request(data, "films"),
        lambda: read_call("POST", data.decode("utf-8", "replace")),
    ):
        with contextlib.suppress(Refusal):
            read()


def written(data: bytes, name: str) -> Path:
    (FOLDER / name).write_bytes(data)
    return FOLDER / name


def safetensors(data: bytes) -> None:
    for tensor in stored_tensors(written(data, "weights.safetensors")).values():
        tensor.read()


def tokenizer(data: bytes) -> None:
    read_tokenizer(written(data, "tokenizer.json").parent, tokenizer_class=None, ignore=())


def records(data: bytes) -> None:
    parse_features(data)
    for record in read_records(written(data, "train.tfrecord")):
        parse_features(record)


def vocabulary(data: bytes) -> None:
    read = Vocabulary.from_file(written(data, "vocab.txt"))
    assert read.ids[read.tokens[-1]] == len(read) - 1


def tokenizers() -> list[bytes]:
    """Returns a tokenizer.json of each kind."""
    words = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 5, "##b": 6}
    letters = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4, "a": 5, "b": 6, "ab": 7}
    wordpiece = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    wordpiece.normalizer = normalizers.BertNormalizer()
    wordpiece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    byte_pairs = Tokenizer(models.BPE(letters, [("a", "b")]))
    byte_pairs.pre_tokenizer = pre_tokenizers.ByteLevel()
    unigram = Tokenizer(models.Unigram([(name, -1.0) for name in letters], unk_id=3))
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    return [each.to_str().encode() for each in (wordpiece, byte_pairs, unigram)]


REQUESTS = [
    b'{"signature_name": "pairs", "instances": [{"text": {"b64": "YQ=="}, "text_pair": "b"}]}',
    b'{"inputs": {"input_ids": [[1, 2]], "input_mask": [[1, 1]], "weights": [0.5]}}',
    b'{"model": "films", "input": ["a"], "encoding_format": "base64"}',
]
RECORD = b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x01"
# Target -> its function, the errors that refuse an input, and valid inputs to begin with
TARGETS: dict[str, tuple[Callable[[bytes], None], tuple, list[bytes]]] = {
    "http": (http, (), REQUESTS),
    "safetensors": (safetensors, DAMAGE, [save({"a": np.ones((2, 3), np.float32)})]),
    "tokenizer": (tokenizer, DAMAGE, tokenizers()),
    "records": (records, (ValueError,), [RECORD, frame([RECORD])]),
    "vocabulary": (vocabulary, (InputError,), [b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n"]),
}


def main() -> None:
    run, refusals, examples = TARGETS[sys.argv[1]]

    def test(data: bytes) -> None:
        with contextlib.suppress(*refusals):
            run(data)

    corpus = Path(sys.argv[-1])
    corpus.mkdir(parents=True, exist_ok=True)
    for number, example in enumerate(examples):
        (corpus / f"example-{number}").write_bytes(example)
    atheris.Setup([sys.argv[0], *sys.argv[2:]], test)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

"""The records equal those of the original writer.

The digests were taken when all records were equal to those of the original. To compare them
again, name a folder with google-research/bert: BERT_ORIGINAL=/path/to/bert pytest <this file>.
"""

import os
import subprocess
import sys
from hashlib import sha256

import pytest

from bert_keras.errors import InputError
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from tests.tensorflow_or_skip import tf
from tfrecords_tools.google import tokenize, write_records
from tfrecords_tools.settings import GoogleSettings

WORDS = ["ada", "sees", "maps", "un", "##aff", "##able", "##s", "the", "a", ",", ".", "!", "(", ")"]
WORDS += ["東", "α", "σ", "##α", "##σ", "##ς", "cafe", "3", "#", "[", "]", "cls", "sep"]
TEXTS = ["Ada sees the maps.", "unaffable Café (3)!", "東 adas unaffables, [SEP] ##", "\u200b", "a"]
TEXTS += ["The maps the maps, unaffables!", "Ada " * 40, "ada\tsees\u00a0maps\u2028a"]
TEXTS += ["ΑΣ (ΣΑ) ΑΣ.Α"]

SHORT, ALWAYS = {"short_sequence_rate": 0.5}, {"short_sequence_rate": 1.0}
CASES = {  # settings, number of outputs, and the start of the SHA-256 of their concatenation
    "as it comes": ({}, 1, "8eb0f4b7af3f908b"),
    "words": ({"mask_unit": "word"}, 3, "c57a79d4958ebc0c"),
    "cased": ({"lowercase": False, "max_length": 64, "seed": 1}, 2, "1c13062ea2077360"),
    "short": ({**SHORT, "max_length": 32, "max_predictions": 5}, 5, "5addaef35930657b"),
    "always": ({**ALWAYS, "mask_unit": "word", "seed": 2**40}, 1, "68b10ecd6eb134b4"),
    "least": ({**SHORT, "max_length": 5, "max_predictions": 1}, 2, "de8bc8c3800ded52"),
    "all": ({"mask_rate": 1.0, "max_predictions": 200, "max_length": 16}, 1, "ef27ee493cebb35c"),
    "few": ({"mask_rate": 0.0, "duplicates": 1}, 9, "25e8c0ce1c9f5048"),
    "one document": ({"mask_unit": "word", "max_length": 16}, 1, "88a41e85f88a198b"),
}


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    Vocabulary((*SPECIAL_TOKENS, "[unused0]", *WORDS)).save(path)
    return path


@pytest.fixture
def files(request, tmp_path):
    """Documents of 1 to 12 lines; one goes on from the first file into the second."""
    lines = []
    for document in range(14):
        count = 1 + document * 5 % 12
        lines += [TEXTS[(document + line * (1 + document % 3)) % 9] for line in range(count)]
        lines += [" "] * (1 + document % 2)
    parts = {
        "1": "\n".join(lines[:37]),
        "2": "\r\n".join(lines[37:60]) + "\n\r",
        "3": "\ufeff\nada\rsees\n" + "\n".join(lines[60:]),
    }
    if "one document" in request.node.name:
        parts = {"1": "the maps\nAda sees\nunaffables!\na\n" * 3}
    paths = [tmp_path / f"{name}.txt" for name in parts]
    for path, text in zip(paths, parts.values(), strict=True):
        path.write_bytes(text.encode())
    return [str(path) for path in paths]


def written(files, vocabulary, folder, *, num_outputs=1, **settings):
    folder.mkdir(exist_ok=True)
    settings = GoogleSettings(**settings, shards=num_outputs)
    vocabulary = Vocabulary.from_file(vocabulary)
    tokenizer = WordPieceTokenizer(vocabulary, lowercase=settings.lowercase)
    tokenize(files, folder / "store", tokenizer=tokenizer)
    entries = write_records(folder / "store", vocabulary=vocabulary, settings=settings)
    counts = entries["splits"]["train"]
    return [folder / shard["file"] for shard in counts["shards"]], counts


def records_of(path):
    for record in tf.data.TFRecordDataset([str(path)]).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature.items()
        yield {n: list(f.int64_list.value or f.float_list.value) for n, f in features}


def digest(paths):
    return sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


@pytest.mark.parametrize("case", CASES)
def test_known_records(case, files, vocabulary, tmp_path):
    changes, num_outputs, known = CASES[case]
    outputs, counts = written(files, vocabulary, tmp_path / "o", num_outputs=num_outputs, **changes)
    assert digest(outputs)[:16] == known
    for shard, path in zip(counts["shards"], outputs, strict=True):
        assert shard["file"] == path.name
        assert (shard["bytes"], shard["sha256"]) == (path.stat().st_size, digest([path]))
    records = [record for path in outputs for record in records_of(path)]
    assert counts["records"] == counts["sequences"] == len(records)
    assert counts["tokens"] == sum(sum(record["input_mask"]) for record in records)
    assert counts["labels_one"] == sum(record["next_sentence_labels"][0] for record in records)


ORIGINAL = """
import os, runpy, sys
import tensorflow
sys.modules["tensorflow"] = tensorflow.compat.v1  # it was written for TensorFlow 1
folder, *sys.argv[1:] = sys.argv[1:]
sys.path.insert(0, folder)
sys.argv[0] = os.path.join(folder, "create_pretraining_data.py")
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.skipif("BERT_ORIGINAL" not in os.environ, reason="needs BERT_ORIGINAL, a folder")
@pytest.mark.parametrize("case", CASES)
def test_records_equal_the_original(case, files, vocabulary, tmp_path):
    changes, num_outputs, _ = CASES[case]
    settings = GoogleSettings(**changes)
    expected = [tmp_path / f"expected-{number}" for number in range(num_outputs)]
    flags = {
        "input_file": ",".join(files),
        "output_file": ",".join(map(str, expected)),
        "vocab_file": vocabulary,
        "do_lower_case": settings.lowercase,
        "do_whole_word_mask": settings.mask_unit == "word",
        "max_seq_length": settings.max_length,
        "max_predictions_per_seq": settings.max_predictions,
        "random_seed": settings.seed,
        "dupe_factor": settings.duplicates,
        "masked_lm_prob": settings.mask_rate,
        "short_seq_prob": settings.short_sequence_rate,
    }
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    command = [sys.executable, "-c", ORIGINAL, os.environ["BERT_ORIGINAL"], *arguments]
    subprocess.run(command, check=True, capture_output=True)
    outputs, _ = written(files, vocabulary, tmp_path / "o", num_outputs=num_outputs, **changes)
    for output, original in zip(outputs, expected, strict=True):
        assert list(records_of(output)) == list(records_of(original))


def test_invalid_text_and_settings_are_refused(vocabulary, tmp_path):
    path = tmp_path / "text.txt"
    for text in (b"ada\nsees \xff maps\n", b"\n \n\xe2\x80\x8b\n"):
        path.write_bytes(text)
        with pytest.raises(InputError):
            written([str(path)], vocabulary, tmp_path / "o")
    for name, value in {"max_predictions": 0, "mask_rate": float("nan"), "mask_unit": "x"}.items():
        with pytest.raises(InputError):
            GoogleSettings(**{name: value})

"""Records of byte-level BPE and Unigram, learnt here, hold the ids of transformers' tokenizers."""

import numpy as np
import pytest

from bert_keras.data.records import common_schema
from bert_keras.text.fast_tokenizer import vocabulary_from
from tfrecords_tools.build import build
from tfrecords_tools.check import every_file, parsed_batches
from tfrecords_tools.cli import main
from tfrecords_tools.settings import BuildSettings
from tfrecords_tools.text.sentences import splitter

transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
pytestmark = pytest.mark.extra

CLASSES = {"bpe": "RobertaTokenizerFast", "unigram": "AlbertTokenizerFast"}


@pytest.mark.parametrize("model", CLASSES)
def test_ids_of_real_text(shared_data, tmp_path, model):
    text = (shared_data / "corpus/wiki.txt").read_text("utf-8")
    documents = [d for d in text.split("\n\n") if d.strip() and len(d) < 12_000][:120]
    # Runs of blanks are one; a sentence that ends without a blank ends a piece here alone.
    documents = [[" ".join(line.split()) for line in d.split("\n")] for d in documents]
    split = splitter("en")
    documents = [[line for line in d if " ".join(split(line)) == line] for d in documents]
    (tmp_path / "text.txt").write_text("\n\n".join("\n".join(lines) for lines in documents))
    output = tmp_path / "tokenizer.json"
    command = ["vocab", str(tmp_path / "text.txt"), "--model", model, "--size", "2000"]
    assert main([*command, "--output", str(output)]) == 0
    theirs = getattr(transformers, CLASSES[model]).from_pretrained(tmp_path)
    vocabulary, settings = (
        vocabulary_from(output),
        BuildSettings(objective="doc-sentences", max_predictions=0, max_length=9000, shards=1),
    )
    build([tmp_path / "text.txt"], vocabulary=vocabulary, output=tmp_path / "r", settings=settings)
    files, actual = every_file(tmp_path / "r"), []
    for file in files:
        for batch in parsed_batches(file, schema=common_schema(files)):
            rows = zip(batch["input_ids"], batch["input_mask"], strict=True)
            actual += [tuple(ids[mask == 1].tolist()) for ids, mask in rows]
    assert (theirs.cls_token_id, theirs.sep_token_id) == (vocabulary.cls_id, vocabulary.sep_id)
    assert theirs.pad_token_id == vocabulary.pad_id and theirs.mask_token_id == vocabulary.mask_id
    expected = []
    for lines in documents:
        told = theirs(lines, add_special_tokens=False)["input_ids"]
        ids = np.concatenate([np.array(each, int) for each in told])
        expected.append((vocabulary.cls_id, *ids.tolist(), vocabulary.sep_id))
    assert sorted(actual) == sorted(expected)

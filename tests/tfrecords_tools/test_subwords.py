"""Records that are written with a byte-level BPE or a Unigram vocabulary."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bert_keras.checkpoints.huggingface.tokenizer import read_tokenizer_json
from bert_keras.data.records import common_schema
from bert_keras.text.fast_tokenizer import FastTokenizer, rules_vocabulary, vocabulary_in
from tfrecords_tools.build import build
from tfrecords_tools.check import check_records, every_file, parsed_batches
from tfrecords_tools.settings import BuildSettings

LICENSE = (Path(__file__).parents[2] / "LICENSE").read_text("utf-8")
SMALL = BuildSettings(max_length=40, max_predictions=6, duplicates=2, shards=1, seed=7)
PLAIN = replace(SMALL, objective="doc-sentences", max_length=300, max_predictions=0, duplicates=1)


@pytest.fixture(params=["roberta", "albert", "modernbert"])
def vocabulary(request, subwords):
    return rules_vocabulary(read_tokenizer_json(subwords[request.param], {}))


@pytest.fixture
def lines():
    """Lists of lines, one for each document; each line begins with '@', which is unique."""
    words = [word for word in LICENSE.split() if word.isascii() and word.isalpha()]
    sentences = [" ".join(words[n : n + 7]).capitalize() + "." for n in range(0, 700, 7)]
    texts = [f"@{' '.join(sentences[n : n + 3])}" for n in range(0, 90, 3)]
    return [texts[n : n + 3] for n in range(0, 30, 3)]


@pytest.fixture
def corpus(lines, tmp_path):
    text = "\n\n".join("\n".join(document) for document in lines)
    (tmp_path / "corpus.txt").write_text(text + "\n\n \n", encoding="utf-8")
    return tmp_path / "corpus.txt"


def built(corpus, vocabulary, settings):
    """Builds records, checks them, and returns the concatenated features of all shards."""
    folder = corpus.parent / "records"
    build([corpus], vocabulary=vocabulary, output=folder, settings=settings)
    assert vocabulary_in(folder) == vocabulary
    check_records(folder, vocabulary=vocabulary)  # against the manifest too
    files = every_file(folder)
    options = {"schema": common_schema(files), "vocab_size": len(vocabulary)}
    batches = [batch for file in files for batch in parsed_batches(file, **options)]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def test_a_record_contains_the_ids_of_its_lines(vocabulary, lines, corpus):
    features, tokenizer = built(corpus, vocabulary, PLAIN), FastTokenizer(vocabulary)
    cls, sep = vocabulary.cls_id, vocabulary.sep_id
    texts = [[i for line in document for i in tokenizer.encode(line).ids] for document in lines]
    rows = zip(features["input_ids"], features["input_mask"], strict=True)
    found = {tuple(ids[mask == 1].tolist()) for ids, mask in rows}
    assert found == {(cls, *ids, sep) for ids in texts}


@pytest.mark.parametrize(
    ("objective", "sequences"),
    [("nsp", 3), ("sop", 1), pytest.param("full-sentences", 3, marks=pytest.mark.slow)],
)
def test_texts_are_separated_as_the_vocabulary_specifies(vocabulary, corpus, objective, sequences):
    settings = replace(SMALL, objective=objective, sequences_per_record=sequences, max_length=64)
    features = built(corpus, vocabulary, settings)
    ids, is_sep = features["input_ids"], features["input_ids"] == vocabulary.sep_id
    has_segments = objective != "full-sentences" and vocabulary.specials.second_segment
    assert features["segment_ids"].any() == has_segments
    starts = (ids == vocabulary.cls_id).sum()
    pairs = starts * (1 + vocabulary.specials.num_separators)
    assert is_sep.sum() >= starts if objective == "full-sentences" else is_sep.sum() == pairs


def test_whole_words_end_at_blanks_and_lines(vocabulary, corpus):
    settings = replace(SMALL, objective="full-sentences", mask_unit="word", mask_rate=0.3)
    features = built(corpus, vocabulary, settings)
    assert features["input_ids"].max() < len(vocabulary)
    specials, num_same = (vocabulary.cls_id, vocabulary.sep_id, vocabulary.pad_id), 0
    for row, ids in enumerate(features["input_ids"]):
        is_counted = features["masked_lm_weights"][row] > 0
        chosen = features["masked_lm_positions"][row][is_counted]
        ids[chosen] = features["masked_lm_ids"][row][is_counted]
        is_chosen = np.isin(np.arange(len(ids)), chosen)
        for index in range(2, len(ids)):
            token = vocabulary.tokens[ids[index]]
            if np.isin(ids[index - 1 : index + 1], specials).any() or token == "@":
                continue
            if vocabulary.continues(token):
                assert is_chosen[index - 1] == is_chosen[index], (row, index)
                num_same += is_chosen[index]
    assert num_same > 20

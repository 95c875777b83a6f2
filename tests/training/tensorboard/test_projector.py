"""What the projector reads of a table of tokens."""

import numpy as np

from bert_keras.text.vocab import SPECIAL_PIECES, Vocabulary
from bert_keras.training.tensorboard import projector
from bert_keras.training.tensorboard.projector import write_projector


def test_the_first_whole_words_with_their_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(projector, "MOST_WORDS", 3)
    pieces = (*SPECIAL_PIECES, "[unused1]", "a", "##b", "[", "dog", "cat")
    table = np.arange(len(pieces) * 2, dtype="float64").reshape(-1, 2)
    write_projector(tmp_path, table, vocabulary=Vocabulary(pieces))
    assert (tmp_path / "metadata.tsv").read_text("utf-8").splitlines() == ["a", "[", "dog"]
    vectors = np.fromfile(tmp_path / "tensors.bytes", "float32").reshape(-1, 2)
    np.testing.assert_array_equal(vectors, table[[6, 8, 9]])
    assert "tensor_shape: 3" in (tmp_path / "projector_config.pbtxt").read_text()

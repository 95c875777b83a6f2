"""The TensorBoard data of a finished run: settings, scores, embeddings."""

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary
from bert_keras.training.curves import read_curves
from bert_keras.training.tensorboard.final import write_hyperparameters, write_projector


def test_all_settings_and_the_numeric_scores_are_written(tmp_path):
    fields = {"size": "tiny", "num_steps": 8, "rate": 0.1, "flag": True, "several": (1e-4, 2e-4)}
    scores = {"loss": 2.5, "note": "none"}
    write_hyperparameters(tmp_path / "final", fields, scores=scores, step=8)
    assert read_curves(tmp_path) == {"final": {"final/loss": [(8, 2.5)]}}
    write_hyperparameters(tmp_path / "one" / "final", fields, scores={"loss": 3.5}, step=8)
    assert {*read_curves(tmp_path)} == {"final", "one/final"}
    assert {*read_curves(tmp_path / "one" / "final")} == {"final"}
    events = EventAccumulator(str(tmp_path / "final")).Reload()
    metadata = events.SummaryMetadata("_hparams_/session_start_info")
    data = plugin_data_pb2.HParamsPluginData.FromString(metadata.plugin_data.content)
    values = data.session_start_info.hparams
    assert values["size"].string_value == "tiny" and values["num_steps"].number_value == 8
    assert values["flag"].bool_value and values["several"].string_value == "(0.0001, 0.0002)"


def test_the_projector_has_the_embeddings_of_the_first_words(tmp_path, monkeypatch):
    monkeypatch.setattr("bert_keras.training.tensorboard.final.MAX_WORDS", 3)
    tokens = (*SPECIAL_TOKENS, "[unused1]", "a", "##b", "[", "dog", "cat")
    table = np.arange(len(tokens) * 2, dtype="float64").reshape(-1, 2)
    write_projector(tmp_path, table, vocabulary=Vocabulary(tokens))
    assert (tmp_path / "metadata.tsv").read_text("utf-8").splitlines() == ["a", "[", "dog"]
    vectors = np.fromfile(tmp_path / "tensors.bytes", "float32").reshape(-1, 2)
    np.testing.assert_array_equal(vectors, table[[6, 8, 9]])
    assert "tensor_shape: 3" in (tmp_path / "projector_config.pbtxt").read_text()

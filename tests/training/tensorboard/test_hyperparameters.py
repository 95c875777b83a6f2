"""Settings and scores of a run, as TensorBoard's table of runs reads them."""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from bert_keras.training.curves import read_curves
from bert_keras.training.tensorboard.hyperparameters import write_hyperparameters


def test_every_setting_of_any_kind_and_the_scores_that_are_numbers(tmp_path):
    fields = {"size": "tiny", "num_steps": 8, "rate": 0.1, "flag": True, "several": (1e-4, 2e-4)}
    scores = {"loss": 2.5, "note": "none"}
    write_hyperparameters(tmp_path / "final", fields, scores=scores, step=8)
    assert read_curves(tmp_path) == {"final": {"final/loss": [(8, 2.5)]}}
    told = EventAccumulator(str(tmp_path / "final")).Reload()
    metadata = told.SummaryMetadata("_hparams_/session_start_info")
    data = plugin_data_pb2.HParamsPluginData.FromString(metadata.plugin_data.content)
    values = data.session_start_info.hparams
    assert values["size"].string_value == "tiny" and values["num_steps"].number_value == 8
    assert values["flag"].bool_value and values["several"].string_value == "(0.0001, 0.0002)"

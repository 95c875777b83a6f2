"""What an error message of a reproduction of the paper's tables tells the user to do succeeds."""

import dataclasses
import shutil

import pytest

from bert_keras.errors import InputError
from bert_keras.experiments.experiments import EXPERIMENTS
from bert_keras.experiments.plan import plan
from bert_keras.experiments.scales import SCALES

TABLE6 = EXPERIMENTS["table6"]
ONE_MODEL = dataclasses.replace(TABLE6, arms=TABLE6.arms[:1], columns=TABLE6.columns[:1])


@pytest.mark.slow
def test_a_table_is_planned_with_a_corpus(data, scale, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(data / "glue", folder / "glue")
    with pytest.raises(InputError, match=r"no corpus/\*.txt; put UTF-8 text for pretraining there"):
        plan(ONE_MODEL, scale, data=folder)
    shutil.copytree(data / "corpus", folder / "corpus")
    assert plan(ONE_MODEL, scale, data=folder)


def test_a_table_that_a_scale_lacks_has_another_scale(data):
    with pytest.raises(
        InputError,
        match="this scale has table5 and c2, but not table6; choose one of these or another scale",
    ):
        plan(TABLE6, SCALES["small"], data=data)
    for table, scale in (("table5", "small"), ("c2", "small"), ("table6", "tiny")):
        assert SCALES[scale].adapted(EXPERIMENTS[table])

"""Every file of an interrupted run is damaged, and the run is continued."""

import dataclasses
import itertools
import shutil

import pytest

from bert_keras.checkpoints.formats import write_checkpoint
from bert_keras.runs.finetune import finetune
from bert_keras.runs.pretrain import pretrain
from bert_keras.training.states import saved_steps
from tests.runs import test_finetune
from tests.runs.test_continue import RECIPE, checkpoint_of, write_records
from tests.runs.test_finetune import files  # noqa: F401
from tests.training.test_loop import DAMAGES

pytestmark = pytest.mark.slow


@pytest.fixture
def pretraining(tmp_path):
    records = write_records(tmp_path / "records")
    shutil.copy(records / "train.tfrecord", records / "held-out.tfrecord")
    start = tmp_path / "start"
    write_checkpoint(checkpoint_of("BertPretrainer", step=3), start, format="google")
    recipe = dataclasses.replace(RECIPE, logs_per_checkpoint=1, keep_checkpoints=3)
    return lambda output: pretrain(recipe, records=records, start=start, output=output)


@pytest.fixture
def finetuning(files, tmp_path):  # noqa: F811
    start = test_finetune.encoder(tmp_path / "encoder")
    task = dataclasses.replace(test_finetune.TASK, text_columns=("one",))
    recipe = dataclasses.replace(test_finetune.RECIPE, num_epochs=3, keep_checkpoints=3)
    return lambda output: finetune(task, recipe, pretrained=start, data=files, output=output)


@pytest.mark.parametrize("kind", ["pretraining", "finetuning"])
def test_a_run_with_a_damaged_file_has_the_same_results_or_is_refused(request, kind, tmp_path):
    run, whole, copy = request.getfixturevalue(kind), tmp_path / "whole", tmp_path / "copy"
    scores = run(whole).scores
    weights = (whole / "model" / "weights.safetensors").read_bytes()
    (whole / "scores.json").unlink()
    *_, newest, last = saved_steps(whole / "checkpoints")
    (whole / "checkpoints" / f"step-{last}.npz").unlink()
    names = [path.relative_to(whole) for path in whole.rglob("*") if path.is_file()]
    groups = [[name for name in names if name.parts[0] == folder] for folder in ("logs", "model")]
    groups += [[name] for name in names if name.parts[0] not in ("logs", "model")]
    for group, damage in itertools.product(groups, DAMAGES):
        shutil.copytree(whole, copy)
        for name in group:
            DAMAGES[damage](copy / name)
        try:
            assert run(copy).scores == scores, (group, damage)
        except Exception:
            assert group[0].name in ("recipe.json", "evaluations.json", "best.npz")
            assert saved_steps(copy / "checkpoints")[-1] >= newest
        else:
            assert (copy / "model" / "weights.safetensors").read_bytes() == weights
        shutil.rmtree(copy)

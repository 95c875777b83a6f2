"""Pretraining from a checkpoint with or without training state and heads."""

import contextlib
import dataclasses
import io
import json
import shutil

import numpy as np
import pytest

from bert_keras import BertPretrainer
from bert_keras.checkpoints.checkpoint import TrainingState
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.checkpoints.tensors import StoredTensor, named_weights
from bert_keras.data.records import pretraining_dataset, record_files
from bert_keras.errors import InputError
from bert_keras.models.loading import load_model
from bert_keras.runs.pretrain import build_pretrainer, pretrain
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.recipes import PretrainRecipe
from bert_keras.text.vocab import Vocabulary
from bert_keras.training.losses import pretraining_losses
from bert_keras.training.optimizer import BertAdamW, LinearWarmupDecay
from bert_keras.training.states import load_training_state
from bert_keras.training.tensorboard import read_curves
from tests.factories import random_checkpoint, tiny_vocabulary, write_records

VOCABULARY = tiny_vocabulary()
RECIPE = PretrainRecipe(
    size="large",  # not used, because the checkpoint determines the size
    batch_size=4,
    num_steps=8,
    num_warmup_steps=2,
    learning_rate=1e-2,
    dropout_rate=0.0,
    steps_per_log=2,
    logs_per_checkpoint=2,
)


def records_in(folder, *, labels: bool = True):
    """Writes records of 12 positions without held-out ones."""
    settings = {} if labels else {"objective": "full-sentences"}
    return write_records(folder, max_length=12, max_predictions=3, shards=1, **settings)


def checkpoint_of(model: str, *, step: int = 0, max_positions: int = 16, lowercase=True):
    """Returns random weights and, if a step is given, a random training state."""
    config = {"num_layers": 1, "activation": "gelu_tanh", "max_positions": max_positions}
    fields = {"max_length": max_positions, "lowercase": lowercase, "config": config}
    made = random_checkpoint(model, **fields)
    squares = {n: StoredTensor(t.shape, lambda t=t: t.read() ** 2) for n, t in made.tensors.items()}
    state = TrainingState(step=step, momentums=made.tensors, velocities=squares)
    return dataclasses.replace(made, state=state if step else None)


@pytest.fixture
def records(tmp_path):
    return records_in(tmp_path / "records")


@pytest.fixture
def start(tmp_path):
    """A folder in Google's format of a pretrainer at step 3."""
    write_checkpoint(checkpoint_of("BertPretrainer", step=3), tmp_path / "start", format="google")
    return tmp_path / "start"


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    """A folder with records, a checkpoint and a run of RECIPE from it; and the run's output."""
    folder, printed = tmp_path_factory.mktemp("runs"), io.StringIO()
    write_checkpoint(checkpoint_of("BertPretrainer", step=3), folder / "start", format="google")
    records_in(folder)
    with contextlib.redirect_stdout(printed):
        assert pretrain(RECIPE, **parts_of(folder)).scores["steps"] == 8
    return folder, printed.getvalue()


def parts_of(folder, **changes) -> dict:
    """Returns the arguments of `pretrain` for the records, start and run in a folder."""
    paths = {"output": folder / "run", "pretrained": folder / "start"}
    return {"records": folder / "records", **paths, **changes}


def recipe(**changes) -> PretrainRecipe:
    return dataclasses.replace(RECIPE, **changes)


def weights(folder):
    return {name: tensor.read() for name, tensor in open_checkpoint(folder).tensors.items()}


def test_a_run_continues_at_the_step_of_its_checkpoint(finished_run):
    folder, printed = finished_run
    *_, new, unused, size, training = map(str.split, printed.splitlines())
    assert (new[1:], unused[1:], size[-3:]) == (["none"], ["none"], ["hidden", "size", "16"])
    assert training[1:3] == ["step", "3,"]
    logged = read_curves(folder / "run" / "logs")["train"]
    assert [step for step, _ in logged["loss/total"]] == [5, 7, 8]
    rate = dict(logged["optimizer/learning_rate"])
    assert rate[5] == pytest.approx(1e-2 * (1 - 5 / 8))
    model = load_model(folder / "run" / "model")
    assert model.config.hidden_size == 16 and model.config.activation == "gelu_tanh"
    assert open_checkpoint(folder / "run" / "model").state is None
    recipe = json.loads((folder / "run" / "recipe.json").read_text())
    assert (recipe["start"], recipe["start_step"]) == (str(folder / "start"), "3")


def test_a_continued_run_equals_single_training_steps(finished_run):
    folder, _ = finished_run
    start = folder / "start"
    rates = dict.fromkeys(("hidden_dropout_rate", "attention_dropout_rate"), 0.0)
    model = BertPretrainer.from_pretrained(start, **rates)
    schedule = LinearWarmupDecay(1e-2, num_steps=8, num_warmup_steps=2)
    model.compile(optimizer=BertAdamW(schedule), loss=pretraining_losses())
    load_training_state(model, open_checkpoint(start).state)
    files = record_files(folder / "records")
    batches = pretraining_dataset(files, batch_size=4, seed=1, repeat=True)
    for batch in batches.take(5):  # steps 3 to 7, on the records from their beginning
        model.train_on_batch(*batch)
    trained = weights(folder / "run" / "model")
    for name, weight in named_weights(model).items():
        np.testing.assert_allclose(trained[name], weight, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("model", "step", "unused", "why"),
    [
        ("BertEncoder", 0, "none", "checkpoint has no training state"),
        ("BertClassifier", 50, "classification (2)",
         "training state of step 50 lacks masked_lm, next_sentence"),
    ],
)  # fmt: skip
def test_missing_heads_start_with_random_weights(
    records, tmp_path, capsys, model, step, unused, why
):
    start = tmp_path / "start"
    write_checkpoint(checkpoint_of(model, step=step), start, format="bert-keras")
    model_of_run = build_pretrainer(PretrainInputs(RECIPE, records=records, pretrained=start))
    *_, new, found, _, training = capsys.readouterr().out.splitlines()
    assert new == "new         masked_lm (5), next_sentence (2)"
    assert (found, training) == (f"unused      {unused}", f"training    step 0: the {why}")
    assert int(model_of_run.optimizer.iterations) == 0
    stored, initial = weights(start), named_weights(model_of_run)
    new = {name.split("/")[0] for name in initial.keys() - stored.keys()}
    assert new == {"masked_lm", "next_sentence"}
    for name in stored.keys() & initial.keys():
        np.testing.assert_array_equal(initial[name], stored[name], name)


def test_the_first_steps_are_a_run_of_their_own(tmp_path):
    records = write_records(tmp_path / "records", max_length=12, max_predictions=0, shards=1)
    changes = ("objective=masked-lm", "mask_rate=0.3")
    seed = {"seed": 2**32 - 1}  # the largest one
    phases = recipe(size="L-1_H-32_A-2", first_share=0.75, first_changes=changes, **seed)
    causal = {"first_changes": ("objective=left-to-right",)}
    with pytest.raises(InputError):
        pretrain(phases, records=records, output=tmp_path / "run", **causal)
    result = pretrain(phases, records=records, output=tmp_path / "run")
    assert result.scores["steps"] == 8
    first = open_checkpoint(tmp_path / "run" / "first" / "model")
    assert (first.metadata.model, first.state.step) == ("BertMaskedLM", 6)
    assert '"mask_rate": 0.3' in (tmp_path / "run" / "first" / "recipe.json").read_text()
    logged = read_curves(tmp_path / "run" / "logs")["train"]
    assert [step for step, _ in logged["loss/total"]] == [8]
    moved = weights(result.model)["encoder/pooler/kernel"]
    assert "masked_lm/output_bias" in first.tensors and np.abs(moved).max() > 0


def test_invalid_first_steps_are_refused(records, tmp_path):
    first = ({"first_changes": (each,)} for each in ("mask=0.3", "mask_rate=0.3"))
    for changes in ({"last_step": 1}, *first):
        with pytest.raises(InputError):
            pretrain(RECIPE, records=records, output=tmp_path / "run", first_share=0.2, **changes)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_records_without_labels_do_not_train_the_label_head(start, tmp_path, capsys):
    records = records_in(tmp_path / "plain", labels=False)
    pretrain(RECIPE, records=records, output=tmp_path / "run", pretrained=start)
    report = capsys.readouterr().out
    assert "unused      next_sentence (2)" in report and "training    step 3" in report
    stored, trained = weights(start), weights(tmp_path / "run" / "model")
    np.testing.assert_array_equal(trained["encoder/pooler/kernel"], stored["encoder/pooler/kernel"])
    assert np.abs(trained["masked_lm/output_bias"] - stored["masked_lm/output_bias"]).max() > 1e-3


def test_unsuitable_checkpoints_are_refused_before_anything_is_written(records, start, tmp_path):
    def check_refusal(*, start=start, **changes):
        with pytest.raises(InputError):
            pretrain(recipe(**changes), records=records, output=tmp_path / "run", pretrained=start)
        assert not (tmp_path / "run").exists()

    check_refusal(num_steps=2, num_warmup_steps=1)
    check_refusal(start=tmp_path / "nothing")
    short = tmp_path / "short"
    write_checkpoint(checkpoint_of("BertEncoder", max_positions=8), short, format="bert-keras")
    check_refusal(start=short)
    manifest = json.loads((records / "manifest.json").read_text())
    for part, name, value in (("settings", "lowercase", False), ("vocabulary", "sha256", "0")):
        changed = {**manifest, part: {**manifest[part], name: value}}
        (records / "manifest.json").write_text(json.dumps(changed))
        check_refusal()
    (records / "manifest.json").unlink()
    (start / "vocab.txt").unlink()
    check_refusal()
    Vocabulary((*VOCABULARY.tokens[:-1], "other")).save(start / "vocab.txt")
    check_refusal()


def test_without_a_manifest_the_casing_is_that_of_the_checkpoint(records, tmp_path):
    (records / "manifest.json").unlink()
    start = tmp_path / "cased"
    write_checkpoint(checkpoint_of("BertPretrainer", lowercase=False), start, format="bert-keras")
    assert not PretrainInputs(RECIPE, records=records, pretrained=start).metadata.lowercase


def test_changed_records_are_refused(finished_run, tmp_path):
    folder, _ = finished_run
    for part in ("records", "run"):
        shutil.copytree(folder / part, tmp_path / part)
    recipe_of_run = tmp_path / "run" / "recipe.json"
    recipe_of_run.write_text(recipe_of_run.read_text().replace(str(folder / "records"), "records"))
    (train,) = (tmp_path / "records").glob("train*")
    shutil.copy(train, train.with_name("train-2.tfrecord"))
    train.write_bytes(train.read_bytes() * 2)
    with pytest.raises(InputError, match=rf"{train.name}.*train-2"):
        pretrain(RECIPE, **parts_of(tmp_path, pretrained=folder / "start"))


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_second_phase_continues_at_the_last_step_of_the_first(optimizer, records, tmp_path):
    start, first, second = (tmp_path / name for name in ("start", "first", "second"))
    write_checkpoint(checkpoint_of("BertPretrainer"), start, format="bert-keras")
    changes = {"optimizer": optimizer}
    pretrain(recipe(last_step=4, **changes), records=records, output=first, pretrained=start)
    state = open_checkpoint(first / "model").state
    assert state is not None and state.step == 4
    assert read_curves(first / "logs")["train"]["loss/total"][-1][0] == 4
    pretrain(recipe(**changes), records=records, output=second, pretrained=first / "model")
    rate = dict(read_curves(second / "logs")["train"]["optimizer/learning_rate"])
    assert rate == {6: pytest.approx(1e-2 * 2 / 8), 8: pytest.approx(0.0)}
    assert open_checkpoint(second / "model").state is None

"""A run in two phases, and a run on truncated records."""

import pytest

from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.errors import InputError
from bert_keras.runs.pretrain import pretrain
from bert_keras.training.tensorboard import read_curves
from tests.runs.test_continue import checkpoint_of, recipe, records  # noqa: F401


@pytest.fixture
def start(tmp_path):
    """A pretrainer of one small layer, without a training state."""
    write_checkpoint(checkpoint_of("BertPretrainer"), tmp_path / "start", format="bert-keras")
    return tmp_path / "start"


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_second_phase_continues_at_the_last_step_of_the_first(
    optimizer,
    records,  # noqa: F811
    start,
    tmp_path,
):
    first = recipe(last_step=4, optimizer=optimizer)
    pretrain(first, records=records, output=tmp_path / "first", start=start)
    state = open_checkpoint(tmp_path / "first" / "model").state
    assert state is not None and state.step == 4
    assert read_curves(tmp_path / "first" / "logs")["train"]["loss/total"][-1][0] == 4

    second = recipe(optimizer=optimizer)
    scores = pretrain(
        second, records=records, output=tmp_path / "second", start=tmp_path / "first" / "model"
    ).scores
    assert scores["steps"] == 8
    rate = dict(read_curves(tmp_path / "second" / "logs")["train"]["optimizer/learning_rate"])
    assert rate == {6: pytest.approx(1e-2 * 2 / 8), 8: pytest.approx(0.0)}
    assert open_checkpoint(tmp_path / "second" / "model").state is None
    with pytest.raises(InputError, match="last_step is 8; expected 0 or more, less than num_steps"):
        recipe(last_step=8)

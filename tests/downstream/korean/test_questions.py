"""KorQuAD 1.0 and KLUE-MRC: official files and scores, and errors."""

import json

import pytest

from bert_keras.cli import main
from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.korean.questions import klue_mrc_scores, korquad_scores
from bert_keras.downstream.squad.answers import Prediction
from bert_keras.downstream.squad.questions import Answer, Question
from tests.downstream.korean.conftest import journey

KORQUAD, KLUE_MRC = named_task("korquad"), named_task("klue-mrc")
FOLDERS = {"korquad": "korquad", "klue-mrc": "klue-mrc-v1.1"}
SETTINGS = ["max_length=40", "max_question_length=12", "stride=8", "num_epochs=1", "batch_size=2"]


def question(*golds):
    answers = tuple(Answer(gold, 0) for gold in golds)
    return Question(id="q", question="?", context="가", answers=answers)


@pytest.mark.parametrize(
    ("golds", "predicted", "exact", "f1"),
    [
        (["2019년 5월"], "2019년 5월.", 100, 100),
        (["5월"], "2019년 5월", 0, 2 * (2 / 7) * 1 / (2 / 7 + 1) * 100),  # 2 of 7 characters
        (["《봄 비》"], "봄 비", 100, 100),
        (["봄‘비’"], "봄 비", 100, 100),  # a quote becomes a space
        (["봄비"], "비봄", 0, 100),  # the order of characters does not count
        (["봄비"], "봄 비", 0, 100),  # nor do spaces
        (["KBS-1"], "kbs1", 100, 100),
        (["가을", "여름"], "여름에", 0, 80),
        (["가을"], "여름", 0, 0),
        (["가을"], "", 0, 0),
    ],
)
def test_scores_of_korquad(golds, predicted, exact, f1):
    scores = korquad_scores([question(*golds)], [Prediction(predicted)])
    assert scores == pytest.approx({"exact_match": exact, "f1": f1})


@pytest.mark.parametrize(
    ("golds", "predicted", "exact", "rouge"),
    [
        (["2019년 5월"], "2019년 5월.", 100, 100),
        (["2019년 5월"], "5월", 0, 2 * 2 / (8 + 2) * 100),
        (["봄비"], "비봄", 0, 50),  # one common character
        (["봄 비"], "봄비", 0, 2 * 1 / (3 + 2) * 100),  # a space counts
        (["《봄》"], "봄", 0, 2 * 1 / (3 + 1) * 100),  # these quotes stay
        (['"()‘’봄'], "봄", 100, 100),  # the pattern of KLUE-baseline
        (["가을", "여름"], "여름에", 0, 80),
        ([], "", 100, 100),
        ([], "여름", 0, 0),
        (["여름"], "", 0, 0),
        (["..."], "", 100, 100),
    ],
)
def test_scores_of_klue_mrc(golds, predicted, exact, rouge):
    scores = klue_mrc_scores([question(*golds)], [Prediction(predicted)])
    assert scores == pytest.approx({"exact_match": exact, "rouge_w": rouge})


@pytest.mark.parametrize("name", FOLDERS)
def test_the_official_layout_is_read(korean_folder, name):
    task = named_task(name)
    files = task.files(korean_folder)
    assert files == task.files(korean_folder / FOLDERS[name])
    for split in ("train", "dev"):
        read = task.read(files[split], split=split)
        assert [each.id for each in read[:2]] == ["q0", "q1"]
        assert all(each.is_impossible or each.target for each in read)
    assert len(read) == {"korquad": 2, "klue-mrc": 3}[name]


def test_the_threshold_of_klue_stays():
    assert KLUE_MRC.tuned([question()], [Prediction("가", 3.0)]) == KLUE_MRC
    assert KLUE_MRC.null_threshold == 0.0


@pytest.mark.parametrize("name", FOLDERS)
def test_a_model_is_fine_tuned_evaluated_and_predicts(korean_folder, encoder, tmp_path, name):
    run, page = tmp_path / "run", tmp_path / "page.html"
    settings = ["--set", *SETTINGS]
    file = journey(name, korean_folder, encoder, run, settings, ["--report", str(page)])
    task = named_task(name)
    examples = task.read(task.files(korean_folder)["dev"], split="dev")
    assert json.loads(file.read_text()).keys() == {each.id for each in examples}
    assert ("ROUGE-W" if name == "klue-mrc" else "F1") in page.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_a_model_is_exported_and_verified(korean_folder, encoder, tmp_path, name):
    data = ["--data", str(korean_folder / FOLDERS[name])]
    start = ["--from", str(encoder), "--output", str(tmp_path / "run")]
    assert main(["finetune", name, *data, *start, "--set", *SETTINGS]) == 0
    target = ["answers", "--to", str(tmp_path / "saved_models")]
    assert main(["export", str(tmp_path / "run" / "model"), *target]) == 0

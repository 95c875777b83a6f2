"""Korean tasks of labelled texts: official files and scores, and errors."""

import numpy as np
import pytest
import scipy.stats

from bert_keras.cli import main
from bert_keras.downstream.classification import TextExample
from bert_keras.downstream.korean.texts import KOREAN_TASKS
from bert_keras.downstream.labels import LabelPrediction
from tests.downstream.korean.conftest import journey

FIRST = {
    "klue-tc": (("국회 예산안 오늘 표결",), "정치"),
    "klue-sts": (("숙소가 역에서 가까워요.", "숙소는 역 근처에 있습니다."), 4.571428571428571),
    "klue-nli": (("숙소가 역에서 가까워요.", "숙소는 역 근처에 있습니다."), "entailment"),
    "nsmc": (('배우가 "정말" 좋았다',), "1"),
    "kornli": (("숙소가 역에서 가까워요.", "숙소는 역 근처에 있습니다."), "entailment"),
    "korsts": (("숙소가 역에서 가까워요.", "숙소는 역 근처에 있습니다."), 4.571),
}


@pytest.mark.parametrize("name", KOREAN_TASKS)
def test_every_split_of_the_official_layout_is_read(korean_folder, name):
    task = KOREAN_TASKS[name]
    files = task.files(korean_folder)
    assert files == task.files(korean_folder / task.row.folder)
    for split, path in files.items():
        examples = task.read(path, split=split)
        assert examples[0][:2] == FIRST[name]
        assert all(example.label is not None for example in examples)


def test_a_review_without_text_counts_as_an_example(korean_folder):
    task = KOREAN_TASKS["nsmc"]
    examples = task.read(task.files(korean_folder)["train"])
    assert examples[2][:2] == (("",), "0") and len(examples) == 4


def scores(name, gold, predicted):
    examples = [TextExample(("가",), label, "x") for label in gold]
    return KOREAN_TASKS[name].score(examples, [LabelPrediction(each) for each in predicted])


def test_topics_are_scored_by_the_mean_f1_of_the_classes():
    """Counted by hand: 정치 2 of 3 predictions and 2 labels, 경제 1 of 1 and 2."""
    computed = scores("klue-tc", ["정치", "정치", "경제", "경제"], ["정치", "정치", "정치", "경제"])
    assert computed == pytest.approx({"macro_f1": (4 / 5 + 2 / 3) / 2, "accuracy": 3 / 4})
    assert next(iter(computed)) == KOREAN_TASKS["klue-tc"].metric


def test_similarities_of_klue_are_scored_by_pearson_and_the_f1_of_at_least_three():
    """Numbers outside of 0 to 5 are not limited. Similar: 2 labels, 3 predictions, 2 of them."""
    gold, predicted = [5.0, 3.0, 2.999, 0.0], [5.5, 3.0, 3.1, -0.5]
    computed = scores("klue-sts", gold, predicted)
    pearson = np.corrcoef(gold, predicted)[0, 1]
    assert computed == pytest.approx({"pearson": pearson, "f1_of_similar": 4 / 5})


def test_similarities_of_korsts_are_scored_by_spearman():
    gold, predicted = [1.0, 4.0, 2.0, 3.0], [0.1, 5.5, 0.3, 0.2]
    computed = scores("korsts", gold, predicted)
    assert computed["spearman"] == pytest.approx(scipy.stats.spearmanr(predicted, gold)[0])
    assert next(iter(computed)) == KOREAN_TASKS["korsts"].metric


@pytest.mark.parametrize("name", KOREAN_TASKS)
def test_a_model_is_fine_tuned_evaluated_and_predicts(korean_folder, encoder, tmp_path, name):
    settings = ["--set", "num_epochs=1", "max_length=32"]
    file = journey(name, korean_folder, encoder, tmp_path / "run", settings)
    task = KOREAN_TASKS[name]
    examples = task.read(task.files(korean_folder)["dev"], split="dev")
    assert len(file.read_text().splitlines()) == len(examples) + 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["klue-tc", "klue-sts", "klue-nli"])
def test_a_model_is_exported_and_verified(korean_folder, encoder, tmp_path, name):
    start = ["--from", str(encoder), "--output", str(tmp_path / "run")]
    settings = ["--set", "num_epochs=1", "max_length=32"]
    assert main(["finetune", name, "--data", str(korean_folder), *start, *settings]) == 0
    target = ["model", "--to", str(tmp_path / "saved_models")]
    assert main(["export", str(tmp_path / "run" / "model"), *target]) == 0

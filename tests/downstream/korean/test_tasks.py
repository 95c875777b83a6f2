"""All Korean tasks: official files, scores, and the way from fine-tuning to an export."""

import contextlib
import json

import numpy as np
import pytest
import scipy.stats

from bert_keras.cli import main
from bert_keras.downstream.catalog import named_task
from bert_keras.downstream.classification import TextExample
from bert_keras.downstream.korean.texts import KOREAN_TASKS
from bert_keras.kinds.classifier import LabelPrediction
from bert_keras.kinds.span import Prediction
from bert_keras.kinds.windows import Answer, Question

TEXT = ["num_epochs=1", "max_length=32"]
WINDOWS = ["max_length=40", "max_question_length=12", "stride=8", "num_epochs=1", "batch_size=2"]
TAGS = ["num_epochs=25", "max_length=40", "learning_rate=0.01"]
SETTINGS = {  # one or two tasks of each kind of head
    **dict.fromkeys(("klue-nli", "korsts"), TEXT),
    **dict.fromkeys(("korquad", "klue-mrc"), WINDOWS),
    **dict.fromkeys(("klue-ner", "naver-ner"), TAGS),
}
QUICK = ("korquad",)  # tests/runs fine-tunes a classifier
NUMBERS = ("숙소가 역에서 가까워요.", "숙소는 역 근처에 있습니다.")
FIRST = {
    "klue-tc": (("국회 예산안 오늘 표결",), "정치"),
    "klue-sts": (NUMBERS, 4.571428571428571),
    "klue-nli": (NUMBERS, "entailment"),
    "nsmc": (('배우가 "정말" 좋았다',), "1"),
    "kornli": (NUMBERS, "entailment"),
    "korsts": (NUMBERS, 4.571),
}


@pytest.mark.parametrize("name", KOREAN_TASKS)
def test_every_split_of_labelled_texts_is_read(korean_folder, name):
    task = KOREAN_TASKS[name]
    files = task.files(korean_folder)
    assert files == task.files(korean_folder / task.folder)
    for split, path in files.items():
        examples = task.read(path, split=split)
        assert examples[0][:2] == FIRST[name]
        assert all(example.label is not None for example in examples)
    if name == "nsmc":  # a review without text counts
        assert examples[2][:2] == (("",), "0") and len(examples) == 4


@pytest.mark.parametrize(("name", "count"), [("korquad", 2), ("klue-mrc", 3)])
def test_every_split_of_questions_is_read(korean_folder, name, count):
    task = named_task(name)
    files = task.files(korean_folder)
    assert files == task.files(korean_folder / task.folder)
    for split in ("train", "dev"):
        read = task.read(files[split], split=split)
        assert [each.id for each in read[:2]] == ["q0", "q1"] and len(read) == count
        assert all(each.is_impossible or each.target for each in read)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in SETTINGS]
)
def test_a_model_is_fine_tuned_evaluated_and_predicts(korean_folder, encoder, tmp_path, name):
    run, task, page = tmp_path / "run", named_task(name), tmp_path / "page.html"
    start = ["--data", str(korean_folder), "--from", str(encoder), "--output", str(run)]
    assert main(["finetune", name, *start, "--set", *SETTINGS[name]]) == 0
    model = [str(run / "model"), "--data", str(korean_folder)]
    with (tmp_path / "s.json").open("w") as file, contextlib.redirect_stdout(file):
        assert main(["evaluate", *model, "--json", "--report", str(page)]) == 0
    expected = json.loads((run / "scores.json").read_text())
    computed = json.loads((tmp_path / "s.json").read_text())
    assert computed == pytest.approx({score: expected[score] for score in computed})
    assert "predictions are wrong" in page.read_text()
    output = tmp_path / "predictions"
    assert main(["predict", *model, "--split", "dev", "--output", str(output)]) == 0
    examples = task.read(task.files(korean_folder)["dev"], split="dev")
    if SETTINGS[name] is WINDOWS:
        assert json.loads(output.read_text()).keys() == {each.id for each in examples}
    elif SETTINGS[name] is TEXT:
        assert len(output.read_text().splitlines()) == len(examples) + 1
    else:
        assert output.read_text().count("\n\n") == 2
        assert expected[task.metric] > 0.5  # it has learned the two sentences
    if name not in QUICK:
        target = ["model", "--output", str(tmp_path / "saved_models")]
        assert main(["export", str(run / "model"), *target]) == 0


SIMILAR = ([5.0, 3.0, 2.999, 0.0], [5.5, 3.0, 3.1, -0.5])
RANKED = ([1.0, 4.0, 2.0, 3.0], [0.1, 5.5, 0.3, 0.2])


@pytest.mark.parametrize(
    ("name", "gold", "predicted", "scores"),
    [
        # Counted by hand: 정치 2 of 3 predictions and 2 labels, 경제 1 of 1 and 2.
        ("klue-tc", ["정치", "정치", "경제", "경제"], ["정치", "정치", "정치", "경제"],
         {"macro_f1": (4 / 5 + 2 / 3) / 2, "accuracy": 3 / 4}),
        # Numbers outside of 0 to 5 are not limited. Similar: 2 labels, 3 predictions, 2 of them.
        ("klue-sts", *SIMILAR, {"pearson": np.corrcoef(*SIMILAR)[0, 1], "f1_of_similar": 4 / 5}),
        ("korsts", *RANKED,
         {"spearman": scipy.stats.spearmanr(*RANKED)[0], "pearson": np.corrcoef(*RANKED)[0, 1]}),
    ],
)  # fmt: skip
def test_scores_of_labelled_texts(name, gold, predicted, scores):
    examples = [TextExample(("가",), label, "x") for label in gold]
    task, predictions = KOREAN_TASKS[name], [LabelPrediction(each) for each in predicted]
    computed = task.score(examples, predictions)
    assert computed == pytest.approx(scores) and next(iter(computed)) == task.metric


def question(*golds):
    answers = tuple(Answer(gold, 0) for gold in golds)
    return Question(id="q", question="?", context="가", answers=answers)


F1, ROUGE_W = ("korquad", "f1"), ("klue-mrc", "rouge_w")


@pytest.mark.parametrize(
    ("score", "golds", "predicted", "exact", "partial"),
    [
        *((score, ["2019년 5월"], "2019년 5월.", 100, 100) for score in (F1, ROUGE_W)),
        *((score, ["가을", "여름"], "여름에", 0, 80) for score in (F1, ROUGE_W)),
        *((score, ["가을"], "", 0, 0) for score in (F1, ROUGE_W)),
        (F1, ["5월"], "2019년 5월", 0, 2 * (2 / 7) * 1 / (2 / 7 + 1) * 100),  # 2 of 7 characters
        (F1, ["《봄 비》"], "봄 비", 100, 100),
        (F1, ["봄‘비’"], "봄 비", 100, 100),  # a quote becomes a space
        (F1, ["봄비"], "비봄", 0, 100),  # the order of characters does not count
        (F1, ["봄비"], "봄 비", 0, 100),  # nor do spaces
        (F1, ["KBS-1"], "kbs1", 100, 100),
        (ROUGE_W, ["2019년 5월"], "5월", 0, 2 * 2 / (8 + 2) * 100),
        (ROUGE_W, ["봄비"], "비봄", 0, 50),  # one common character
        (ROUGE_W, ["봄 비"], "봄비", 0, 2 * 1 / (3 + 2) * 100),  # a space counts
        (ROUGE_W, ["《봄》"], "봄", 0, 2 * 1 / (3 + 1) * 100),  # these quotes stay
        (ROUGE_W, ['"()‘’봄'], "봄", 100, 100),  # the pattern of KLUE-baseline
        (ROUGE_W, [], "", 100, 100),
        (ROUGE_W, [], "여름", 0, 0),
        (ROUGE_W, ["..."], "", 100, 100),
    ],
)
def test_scores_of_questions(score, golds, predicted, exact, partial):
    task, name = score
    scores = named_task(task).score([question(*golds)], [Prediction(predicted)])
    assert scores == pytest.approx({"exact_match": exact / 100, name: partial / 100})


def test_the_threshold_of_klue_stays():
    task = named_task("klue-mrc")
    assert task.tuned([question()], [Prediction("가", 3.0)]) == task and task.null_threshold == 0.0

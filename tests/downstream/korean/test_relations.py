"""KLUE's relation extraction: the official file, markers, scores, errors, and a served model."""

import copy
import json

import keras
import numpy as np
import pytest

from bert_keras.checkpoints.formats import open_text_checkpoint
from bert_keras.cli import main
from bert_keras.config import BertConfig
from bert_keras.downstream.classification import TextExample
from bert_keras.downstream.korean.relations import KLUE_RE_TASK, RELATIONS, mean_auprc
from bert_keras.downstream.label_kinds import LabelPrediction
from bert_keras.errors import InputError
from bert_keras.exporting.verify import run_requests
from bert_keras.models import BertEncoder, load_model
from bert_keras.text.markers import MARKERS
from bert_keras.text.tokenizer import WordPieceTokenizer
from tests.downstream.korean.conftest import KLUE_RE, VOCABULARY

SENTENCES = [
    ("<subj>김나리</subj>가 한들마을 도서관의 <obj>관장</obj>을 맡았다.", "per:title"),
    ("<subj>한들전자</subj>는 <obj>2019년 5월</obj>에 문을 열었다.", "org:founded"),
    ("<obj>박하늘</obj>은 <<subj>한들전자</subj>>와 관계가 없다고 말했다.", "no_relation"),
    ("<subj>박하늘</subj>의 아내는 <obj>김나리</obj>", "per:spouse"),
]


def test_entities_are_marked_in_the_order_of_the_sentence(korean_folder):
    files = KLUE_RE_TASK.files(korean_folder)
    assert files == KLUE_RE_TASK.files(korean_folder / "klue-re-v1.1")
    examples = KLUE_RE_TASK.read(files["train"])
    assert [(*each.texts, each.label) for each in examples] == SENTENCES


def test_relations_are_those_of_the_official_list():
    assert len(set(RELATIONS)) == 30 and RELATIONS[0] == "no_relation"


def changed(**values):
    """Returns the first item with other values, by their path with double underscores."""
    item = copy.deepcopy(KLUE_RE[0])
    for path, value in values.items():
        *parents, key = path.split("__")
        target = item
        for parent in parents:
            target = target[parent]
        target[key] = value
    return item


SUBJECT = KLUE_RE[0]["subject_entity"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (changed(label="per:boss"), "item 1 has the label 'per:boss'; known: no_relation, org:dis"),
        (changed(subject_entity=1), "item 1 has no column 'subject_entity.word'; it has 'guid'"),
        (
            changed(subject_entity__end_idx=99),
            "item 1 has the characters 0 to 99 as subject_entity, in a sentence of 23 char",
        ),
        (changed(subject_entity__start_idx=-1), "has the characters -1 to 2 as subject_entity"),
        (changed(subject_entity__start_idx=3), "has the characters 3 to 2 as subject_entity"),
        (changed(object_entity__start_idx="x"), "item 1 has the characters x to .* as object_enti"),
        (
            changed(subject_entity__word="나리"),
            "the subject_entity '나리', but the characters 0 to 2 are '김나리'; correct the",
        ),
        (
            changed(object_entity=SUBJECT),
            "item 1 has the same characters as subject_entity and object_entity; expected two ent",
        ),
    ],
)  # fmt: skip
def test_errors_name_the_item(tmp_path, item, message):
    (tmp_path / "a.json").write_text(json.dumps([item]))
    with pytest.raises(InputError, match=message):
        KLUE_RE_TASK.read(tmp_path / "a.json")


def test_scores_equal_the_official_formulas():
    """Micro F1 from counts without no_relation; the area under each precision-recall curve by the
    trapezoidal rule over the distinct thresholds."""
    rng = np.random.default_rng(0)
    gold_N = np.concatenate([np.arange(30), rng.integers(0, 4, 200)])
    logits_NL = rng.normal(size=(len(gold_N), 30)).round(1) + 2 * np.eye(30)[gold_N]
    probabilities_NL = np.exp(logits_NL) / np.exp(logits_NL).sum(axis=1, keepdims=True)
    predicted_N = probabilities_NL.argmax(axis=1)
    examples = [TextExample(("가",), RELATIONS[each], "x") for each in gold_N]
    predictions = [
        LabelPrediction(RELATIONS[label], each)
        for label, each in zip(predicted_N, probabilities_NL, strict=True)
    ]
    num_right = ((gold_N == predicted_N) & (gold_N > 0)).sum()
    areas = [area(gold_N == label, probabilities_NL[:, label]) for label in range(30)]
    assert KLUE_RE_TASK.score(examples, predictions) == pytest.approx(
        {
            "micro_f1": 2 * num_right / ((gold_N > 0).sum() + (predicted_N > 0).sum()),
            "auprc": np.mean(areas),
        }
    )


def area(is_label_N, scores_N):
    thresholds = np.unique(scores_N)[::-1]
    points = [(0.0, 1.0)]  # recall and precision
    for threshold in thresholds:
        is_predicted_N = scores_N >= threshold
        num_right = (is_predicted_N & is_label_N).sum()
        points.append((num_right / is_label_N.sum(), num_right / is_predicted_N.sum()))
    recalls, precisions = np.array(points).T
    return np.sum(np.diff(recalls) * (precisions[1:] + precisions[:-1]) / 2)


def test_relations_that_do_not_occur_do_not_count_for_the_area():
    probabilities = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]])
    assert mean_auprc(["a", "b"], probabilities, labels=("a", "b", "c")) == 1.0


@pytest.fixture(scope="module")
def fine_tuned(tmp_path_factory):
    """The folder of a run that has learned the four sentences, with their files in `data`."""
    folder = tmp_path_factory.mktemp("klue-re")
    (folder / "data").mkdir()
    for split in ("train", "dev"):
        (folder / "data" / f"klue-re-v1.1_{split}.json").write_text(json.dumps(KLUE_RE))
    keras.utils.set_random_seed(1)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=16,
        num_layers=1,
        num_heads=2,
        max_positions=64,
        initializer_stddev=0.2,
    )
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=False)
    encoder = BertEncoder(config).save_pretrained(folder / "encoder", tokenizer=tokenizer)
    start = ["--from", str(encoder), "--output", str(folder / "run")]
    settings = ["--set", "num_epochs=40", "max_length=60", "learning_rate=0.02", "dropout_rate=0"]
    data = ["--data", str(folder / "data")]
    assert main(["finetune", "klue-re", *data, *start, *settings]) == 0
    return folder / "run"


def test_a_model_is_fine_tuned_evaluated_and_predicts(tmp_path, fine_tuned):
    folder = fine_tuned.parent / "data"
    file, data = tmp_path / "predictions.tsv", ["--data", str(folder)]
    model = ["--model", str(fine_tuned / "model")]
    assert main(["evaluate", "klue-re", *model, *data]) == 0
    assert main(["predict", "klue-re", *model, *data, "--split", "dev", "--output", str(file)]) == 0
    examples = KLUE_RE_TASK.read(KLUE_RE_TASK.files(folder)["dev"], split="dev")
    expected = json.loads((fine_tuned / "scores.json").read_text())
    computed = KLUE_RE_TASK.score(examples, KLUE_RE_TASK.read_predictions(file, examples))
    assert computed == {score: expected[score] for score in computed}
    assert expected["micro_f1"] == 1.0  # it has learned the four sentences
    vocabulary = open_text_checkpoint(fine_tuned / "model").vocabulary
    assert vocabulary.tokens[-6:] == (*MARKERS, "[unused4]", "[unused5]")
    assert main(["evaluate", "klue-re", "--predictions", str(file), *data]) == 0


def test_a_saved_model_reads_marked_texts(fine_tuned, tmp_path):
    model = load_model(fine_tuned / "model")
    for text, _ in SENTENCES:
        assert {*MARKERS} < {*model.tokenizer.encode(text).tokens}
    logits = model.predict([text for text, _ in SENTENCES])
    assert [model.metadata.labels[row.argmax()] for row in logits] == [e for _, e in SENTENCES]
    model.save_pretrained(tmp_path / "theirs", format="huggingface")
    again = load_model(tmp_path / "theirs")
    np.testing.assert_array_equal(again.predict([text for text, _ in SENTENCES]), logits)


@pytest.mark.slow
def test_an_exported_model_reads_marked_texts(fine_tuned, tmp_path):
    target = ["relations", "--to", str(tmp_path / "served")]
    assert main(["export", str(fine_tuned / "model"), *target]) == 0
    request = {
        "signature": "serving_default",
        "inputs": {"text": [text for text, _ in SENTENCES]},
    }
    (outputs,) = run_requests(tmp_path / "served" / "relations" / "1", [request])
    assert outputs["label"] == [label for _, label in SENTENCES]


def test_predictions_without_probabilities_are_refused(tmp_path, korean_folder):
    examples = KLUE_RE_TASK.read(KLUE_RE_TASK.files(korean_folder)["dev"])[:1]
    header = "\t".join(("index", "prediction", *RELATIONS))
    for row, message in (
        ("0\tper:title\t0.5", "line 2 has '0.5' after the label; expected 30 probabilities"),
        ("0\tper:boss" + 30 * "\t0", "line 2 has the label 'per:boss'; known"),
    ):
        (tmp_path / "p.tsv").write_text(f"{header}\n{row}\n")
        with pytest.raises(InputError, match=message):
            KLUE_RE_TASK.read_predictions(tmp_path / "p.tsv", examples)

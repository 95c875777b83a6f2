"""Defines the Korean tasks that predict a label or a number for one text or two."""

from bert_keras.downstream.glue import PAIR, GlueRow, GlueTask, make_tasks


def klue_files(name: str, *, suffix: str = ".json") -> dict[str, str]:
    """Returns the file of each split of a KLUE task; the test files are not published."""
    return {split: f"{name}-v1.1_{split}{suffix}" for split in ("train", "dev", "test")}


KORNLI_FILES = {"train": "multinli.train", "dev": "xnli.dev", "test": "xnli.test"}
# Files, labels and scores of KLUE follow KLUE-benchmark/KLUE-baseline (klue_baseline/data,
# metrics/functional.py), except that scores are fractions of 1. Files of KorNLI and KorSTS come
# from kakaobrain/kor-nlu-datasets. Files of NSMC, and the scores of all three, follow
# monologg/KoELECTRA (finetune/config, processor/seq_cls.py, src/utils.py).
KOREAN_ROWS: dict[str, GlueRow] = {
    "klue-tc": GlueRow(
        folder="ynat-v1.1",
        texts={"title": "title"},
        labels=("정치", "경제", "사회", "생활문화", "세계", "IT과학", "스포츠"),
        scores=("macro_f1", "accuracy"),
        files=klue_files("ynat"),
    ),
    "klue-sts": GlueRow(
        folder="klue-sts-v1.1",
        texts=PAIR,
        label_column="labels.real-label",
        kind="number",
        labels=("real-label",),
        scores=("pearson", "f1_of_similar"),
        files=klue_files("klue-sts"),
    ),
    "klue-nli": GlueRow(
        folder="klue-nli-v1.1",
        texts={"premise": "premise", "hypothesis": "hypothesis"},
        label_column="gold_label",
        labels=("entailment", "contradiction", "neutral"),
        files=klue_files("klue-nli"),
    ),
    "nsmc": GlueRow(  # it has no dev split, and is scored on the test file
        folder="nsmc",
        texts={"document": "document"},
        files={"train": "ratings_train.txt", "dev": "ratings_test.txt", "test": "ratings_test.txt"},
    ),
    "kornli": GlueRow(  # trained on the translation of MNLI alone
        folder="KorNLI",
        texts={"premise": "sentence1", "hypothesis": "sentence2"},
        label_column="gold_label",
        labels=("contradiction", "entailment", "neutral"),
        files={split: f"{name}.ko.tsv" for split, name in KORNLI_FILES.items()},
    ),
    "korsts": GlueRow(
        folder="KorSTS",
        texts=PAIR,
        label_column="score",
        kind="number",
        labels=("score",),
        scores=("spearman", "pearson"),
        files={split: f"sts-{split}.tsv" for split in ("train", "dev", "test")},
    ),
}

KOREAN_TASKS: dict[str, GlueTask] = make_tasks(KOREAN_ROWS)

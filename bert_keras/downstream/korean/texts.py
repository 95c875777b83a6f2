"""Defines the Korean tasks that predict a label or a number for one text or two."""

from bert_keras.downstream.glue import PAIR, GlueTask
from bert_keras.downstream.task import FileNames

TEST_AS_DEV = {"train": "train", "dev": "test", "test": "test"}  # if the data has no dev file


def klue_files(name: str, *, suffix: str = ".json") -> FileNames:
    """Returns the files of each split of a KLUE task; the test files are not published."""
    return {split: (f"{name}-v1.1_{split}{suffix}",) for split in ("train", "dev", "test")}


# Files, labels and scores of KLUE follow KLUE-benchmark/KLUE-baseline (klue_baseline/data,
# metrics/functional.py), except that scores are fractions of 1. Files of KorNLI and KorSTS come
# from kakaobrain/kor-nlu-datasets. Files of NSMC, and the scores of all three, follow
# monologg/KoELECTRA (finetune/config, processor/seq_cls.py, src/utils.py).
KOREAN_TASKS: dict[str, GlueTask] = {
    task.name: task
    for task in (
        GlueTask(
            name="klue-tc",
            folder="ynat-v1.1",
            file_names=klue_files("ynat"),
            text_columns=("title",),
            labels=("정치", "경제", "사회", "생활문화", "세계", "IT과학", "스포츠"),
            scores=("macro_f1", "accuracy"),
        ),
        GlueTask(
            name="klue-sts",
            folder="klue-sts-v1.1",
            file_names=klue_files("klue-sts"),
            label_column="labels.real-label",
            kind="number",
            labels=("real-label",),
            scores=("pearson", "f1_of_similar"),
        ),
        GlueTask(
            name="klue-nli",
            folder="klue-nli-v1.1",
            file_names=klue_files("klue-nli"),
            text_columns=("premise", "hypothesis"),
            label_column="gold_label",
            labels=("entailment", "contradiction", "neutral"),
        ),
        GlueTask(
            name="nsmc",  # the test file chooses the best epoch
            folder="nsmc",
            file_names={split: (f"ratings_{file}.txt",) for split, file in TEST_AS_DEV.items()},
            text_columns=("document",),
        ),
        GlueTask(
            name="kornli",  # trained on the translation of MNLI alone
            folder="KorNLI",
            file_names={
                "train": ("multinli.train.ko.tsv",),
                "dev": ("xnli.dev.ko.tsv",),
                "test": ("xnli.test.ko.tsv",),
            },
            text_columns=("premise", "hypothesis"),
            file_columns=PAIR,
            label_column="gold_label",
            labels=("contradiction", "entailment", "neutral"),
        ),
        GlueTask(
            name="korsts",
            folder="KorSTS",
            file_names={split: (f"sts-{split}.tsv",) for split in ("train", "dev", "test")},
            label_column="score",
            kind="number",
            labels=("score",),
            scores=("spearman", "pearson"),
        ),
    )
}

"""Lists the names of tasks and their settings; imports neither Keras nor TensorFlow."""

import sys

# The names of `downstream.catalog.TASKS`.
TASKS = {
    "cola": "GLUE: is a sentence acceptable",
    "sst2": "GLUE: is a review positive",
    "mrpc": "GLUE: do two sentences mean the same",
    "stsb": "GLUE: similarity of two sentences, 0 to 5",
    "qqp": "GLUE: are two questions the same",
    "mnli": "GLUE: entailment, neutral or contradiction",
    "qnli": "GLUE: does a sentence answer a question",
    "rte": "GLUE: entailment or not",
    "wnli": "GLUE: what a pronoun refers to",
    "squad1": "SQuAD 1.1: the span that answers a question",
    "squad2": "SQuAD 2.0: the span that answers a question, or no answer",
    "swag": "SWAG: one of four endings",
    "klue-tc": "KLUE: topic of a headline",
    "klue-sts": "KLUE: similarity of two sentences",
    "klue-nli": "KLUE: entailment, neutral or contradiction",
    "nsmc": "Naver movie reviews: positive or negative",
    "kornli": "KorNLI: entailment, neutral or contradiction",
    "korsts": "KorSTS: similarity of two sentences",
    "korquad": "KorQuAD 1.0: the span that answers a question",
    "klue-mrc": "KLUE: the span that answers a question, or no answer",
    "klue-ner": "KLUE: names in a sentence, by characters",
    "naver-ner": "Naver NER: names in a sentence, by words",
    "ner": "CoNLL files: names in a sentence",
    "ner-features": "CoNLL files: names in a sentence, by a BiLSTM over frozen features",
    "pos": "CoNLL files: parts of speech, or other tags of single words",
    "classification": "your table (.csv, .tsv, .jsonl): one label for a text or a pair",
    "multi-label": "your table: several labels",
    "regression": "your table: a number",
    "sentence-pairs": "your table: embeddings from pairs with a score",
    "retrieval": "your table: embeddings of queries and passages",
}

# Tasks of `bert-keras evaluate` alone, which score pretrained models
ZERO_SHOT = {"blimp": "BLiMP: the right one of two sentences, by models without fine-tuning"}

# Name of the ecosystem -> name in `downstream.catalog.TASKS`
ALIASES = {
    "text-classification": "classification",
    "token-classification": "ner",
    "question-answering": "squad1",
    "sentence-similarity": "sentence-pairs",
}

_ANSWERS = ("stride", "max_question_length", "max_answer_length", "num_best", "null_threshold")
_TABLE = ("kind", "text_columns", "label_column")
_EMBEDDINGS = ("loss", "dimensions", "truncate_dim", "pooling")
TEXT_COLUMN, LABEL_COLUMN = "text", "label"  # of a table, by default
_LABELLED = {"text_columns": TEXT_COLUMN, "label_column": LABEL_COLUMN}
# Task -> the settings that name columns of its tables, and their defaults
COLUMNS = {
    **dict.fromkeys(("classification", "multi-label", "regression"), _LABELLED),
    "sentence-pairs": {"text_columns": "sentence1,sentence2", "score_column": "score"},
    "retrieval": {"query_column": "query", "positive_column": "positive"},
}
# Task -> its settings beside `max_length`, which every task has
SETTINGS = {
    **dict.fromkeys(("squad1", "squad2"), ("version", *_ANSWERS)),
    **dict.fromkeys(("korquad", "klue-mrc"), _ANSWERS),
    **dict.fromkeys(("ner", "pos"), ("context",)),
    "ner-features": ("context", "layers", "lstm_units"),
    **dict.fromkeys(("classification", "multi-label", "regression"), _TABLE),
    "sentence-pairs": (*_EMBEDDINGS, "text_columns", "score_column", "max_score"),
    "retrieval": (
        *_EMBEDDINGS,
        *("query_column", "positive_column", "negative_columns"),
        *("query_prompt", "passage_prompt", "cutoff"),
    ),
}


def task_names() -> list[str]:
    """Returns the names of all tasks, with aliases and those that a program has added."""
    catalog = sys.modules.get("bert_keras.downstream.catalog")
    return [*dict.fromkeys([*TASKS, *(catalog.TASKS if catalog else ()), *ZERO_SHOT, *ALIASES])]

"""Lists every task in TASKS, and finds the task of a name or of a fine-tuned model."""

import dataclasses

from bert_keras.config import SINGLE, ModelMetadata, numbered_labels
from bert_keras.downstream.classification import TABLE_TASKS
from bert_keras.downstream.glue import GLUE_TASKS
from bert_keras.downstream.korean.tags import TAG_TASKS
from bert_keras.downstream.korean.texts import KOREAN_TASKS, QUESTION_TASKS
from bert_keras.downstream.ner.features import NER_FEATURES_TASK
from bert_keras.downstream.ner.task import NER_TASK, POS_TASK
from bert_keras.downstream.sentences.pairs import SENTENCE_PAIRS_TASK
from bert_keras.downstream.sentences.retrieval import RETRIEVAL_TASK
from bert_keras.downstream.squad.task import SQUAD_TASKS
from bert_keras.downstream.swag import SWAG_TASK
from bert_keras.downstream.task import Task
from bert_keras.errors import InputError, check_name
from bert_keras.files import StrPath

# `bert-keras list tasks` has this order: tasks for the user's own files come first.
TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        *TABLE_TASKS.values(),
        SENTENCE_PAIRS_TASK,
        RETRIEVAL_TASK,
        NER_TASK,
        NER_FEATURES_TASK,
        POS_TASK,
        *GLUE_TASKS.values(),
        *SQUAD_TASKS.values(),
        SWAG_TASK,
        *KOREAN_TASKS.values(),
        *QUESTION_TASKS,
        *TAG_TASKS,
    )
}


# Name in TASKS -> description of the task
DESCRIPTIONS = {
    "classification": "your table (.csv, .tsv, .jsonl): one label for a text or a pair",
    "multi-label": "your table: several labels",
    "regression": "your table: a number",
    "sentence-pairs": "your table: embeddings from pairs with a score",
    "retrieval": "your table: embeddings of queries and passages",
    "ner": "your CoNLL file: names in a sentence",
    "ner-features": "your CoNLL file: names in a sentence, by a BiLSTM over frozen features",
    "pos": "your CoNLL file: parts of speech, or other tags of single words",
    "cola": "GLUE: is a sentence acceptable",
    "sst2": "GLUE: is a review positive",
    "mrpc": "GLUE: do two sentences mean the same",
    "stsb": "GLUE: similarity of two sentences, 0 to 5",
    "qqp": "GLUE: are two questions the same",
    "mnli": "GLUE: entailment, neutral or contradiction",
    "qnli": "GLUE: does a sentence answer a question",
    "rte": "GLUE: entailment or not",
    "wnli": "GLUE: which noun a pronoun stands for",
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
}

# Tasks that only `bert-keras evaluate` has: they score pretrained models without fine-tuning
ZERO_SHOT = {"blimp": "BLiMP: the right one of two sentences, by models without fine-tuning"}


def named_task(name: str) -> Task:
    """Returns the task with a name; raises InputError if there is none."""
    check_name(name, TASKS, what="task")
    return TASKS[name]


def task_of(metadata: ModelMetadata, *, name: str | None, source: StrPath) -> Task:
    """Returns a task with the settings on which a model was fine-tuned.

    A model without a task in its metadata gets the default settings and keeps its labels. If they
    are only numbered, the labels of the task replace them.

    Args:
        metadata: The metadata of the model.
        name: The name of the task. None takes the task of the fine-tuning, or for a classifier that
            `fit` trained, the task for tables with the same problem type. A task of sentence
            embeddings also scores a model of another task, and uses only its `max_length`.
        source: The name of the model in error messages.
    """
    tuned_on = metadata.task.get("name")
    problem_of_model = metadata.problem_type or SINGLE
    if name is None:
        tables = {(each.model, each.problem_type or SINGLE): each for each in TABLE_TASKS.values()}
        table_task = tables.get((metadata.model, problem_of_model))
        name = str(tuned_on or (table_task.name if table_task else ""))
    if not name:
        names = [each.name for each in TASKS.values() if each.model == metadata.model]
        expected = f"give --task (task=), one of {', '.join([*names, *ZERO_SHOT])}"
        raise InputError(f"{source} is a {metadata.model} without a task; {expected}")
    task = named_task(name)
    name = task.name
    if metadata.model != task.model:
        raise InputError(f"{source} is a {metadata.model}; the task {name} needs a {task.model}")
    if task.scores_other_tasks and tuned_on != name:
        return dataclasses.replace(task, max_length=metadata.max_length)
    labels, problem = metadata.labels, task.problem_type or SINGLE
    if metadata.task:
        fits = tuned_on == name
    else:
        fits = metadata.problem_type in ("", problem)
        if task.labels and set(labels) != set(task.labels):
            fits = fits and labels == numbered_labels(len(task.labels))
            labels = task.labels
    if not fits:
        known, needed = ", ".join(metadata.labels[:20]), ", ".join(task.labels[:20])
        raise InputError(
            f"{source} was fine-tuned on {tuned_on or 'an unknown task'} "
            f"({problem_of_model}; labels {known or 'any'}), "
            f"not on {name} ({problem}; labels {needed or 'any'})"
        )
    fields = {field.name for field in dataclasses.fields(task)}
    stored = {field: value for field, value in metadata.task.items() if field in fields}
    settings = {f: tuple(v) if isinstance(v, list) else v for f, v in stored.items()}
    return dataclasses.replace(task, **settings, labels=labels)

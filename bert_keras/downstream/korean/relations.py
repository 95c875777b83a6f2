"""Defines KLUE's relation extraction: the relation between two marked entities of a sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bert_keras.downstream.classification import ClassificationTask, TextExample
from bert_keras.downstream.korean.texts import klue_files
from bert_keras.downstream.label_kinds import LabelPrediction
from bert_keras.downstream.label_scores import f1
from bert_keras.downstream.table import read_numbered, table_rows
from bert_keras.downstream.task import Encoded, data_files, needs_labels, task_folder
from bert_keras.errors import InputError
from bert_keras.files import StrPath
from bert_keras.options import fixed
from bert_keras.text.markers import MARKERS, OBJECT, SUBJECT, has_markers, with_markers
from bert_keras.text.tokenizer import TextTokenizer
from bert_keras.text.vocab import Vocabulary

NO_RELATION = "no_relation"
# relation_list.json of KLUE-benchmark/KLUE (klue_benchmark/klue-re-v1.1), in its order.
RELATIONS = (
    *(NO_RELATION, "org:dissolved", "org:founded", "org:place_of_headquarters"),
    *("org:alternate_names", "org:member_of", "org:members"),
    *("org:political/religious_affiliation", "org:product", "org:founded_by"),
    *("org:top_members/employees", "org:number_of_employees/members", "per:date_of_birth"),
    *("per:date_of_death", "per:place_of_birth", "per:place_of_death", "per:place_of_residence"),
    *("per:origin", "per:employee_of", "per:schools_attended", "per:alternate_names"),
    *("per:parents", "per:children", "per:siblings", "per:spouse", "per:other_family"),
    *("per:colleagues", "per:product", "per:religion", "per:title"),
)
_ENTITIES = {"subject_entity": SUBJECT, "object_entity": OBJECT}  # with their markers
_INDICES = ("start_idx", "end_idx")  # of the first and of the last character of an entity


@dataclass(frozen=True, kw_only=True)
class KlueReTask(ClassificationTask):
    """KLUE's relation extraction, from the sentence with markers around both entities.

    The model reads `<subj>조지</subj>는 <obj>비틀즈</obj>다`. Each marker is a token of the
    vocabulary, instead of an [unusedN] token. The rules are those of
    KLUE-benchmark/KLUE-baseline (klue_baseline/data/klue_re.py, metrics/functional.py), with scores
    as fractions of 1.
    """

    kind: str = fixed("one")
    text_columns: tuple[str, ...] = fixed(("sentence",))
    label_column: str = fixed("label")
    max_length: int = 256  # maximum number of tokens of a row, special tokens included
    long_texts: str = "truncate"

    probability_format: ClassVar[str] = ".9g"  # all digits of float32, because AUPRC ranks them

    @property
    def scores(self) -> tuple[str, ...]:
        return ("micro_f1", "auprc")

    def files(self, data: StrPath) -> dict[str, str]:
        names = {split: [file] for split, file in klue_files("klue-re").items()}
        return data_files(task_folder(data, "klue-re-v1.1"), names=names)

    def read(self, path: StrPath, *, split: str = "train") -> list[TextExample]:
        """Reads the items of a file.

        Raises:
            InputError: An item lacks a key, an entity is not where its indices say, or the label is
                unknown; the message names the item.
        """
        keys = [f"{entity}.{key}" for entity in _ENTITIES for key in ("word", *_INDICES)]
        labels = [self.label_column] if needs_labels(split) else []
        examples = [
            self.example(
                [marked_sentence(values, location=location)],
                values.get(self.label_column),
                location=location,
                split=split,
            )
            for location, values in table_rows(path, columns=["sentence", *keys, *labels])
        ]
        self.remark_on_labels(examples, split=split)
        return examples

    def vocabulary(self, vocabulary: Vocabulary) -> Vocabulary:
        return with_markers(vocabulary)

    def encode(self, examples: Sequence[TextExample], tokenizer: TextTokenizer) -> Encoded:
        if not has_markers(tokenizer.vocabulary):
            raise InputError(
                f"the vocabulary of the model lacks the markers {' '.join(MARKERS)}; use a model "
                f"that bert-keras finetune {self.name} wrote"
            )
        return super().encode(examples, tokenizer)

    def score(
        self, examples: Sequence[TextExample], predictions: Sequence[LabelPrediction]
    ) -> dict[str, float]:
        self.check_labels(examples)
        gold = [example.label for example in examples]
        predicted = [prediction.label for prediction in predictions]
        relations = [label for label in self.labels if label != NO_RELATION]
        probabilities = np.array([prediction.probabilities for prediction in predictions])
        return {
            "micro_f1": f1(gold, predicted, average="micro", labels=relations),
            "auprc": mean_auprc(gold, probabilities, labels=self.labels),
        }

    def read_predictions(
        self, path: StrPath, examples: Sequence[TextExample]
    ) -> list[LabelPrediction]:
        """Reads the predictions of a file with their probabilities, which `auprc` needs."""
        header = ("index", "prediction", *self.labels)
        rows = read_numbered(path, header=header, num_rows=len(examples))
        return [self._prediction(columns, location=location) for location, columns in rows]

    def _prediction(self, columns: Sequence[str], *, location: str) -> LabelPrediction:
        label, *texts = columns
        self.label_kind.check(label, self.labels, location=location)
        try:
            return LabelPrediction(label, np.array(texts, np.float64).reshape(len(self.labels)))
        except ValueError as error:
            raise InputError(
                f"{location} has {' '.join(texts)[:40]!r} after the label; expected "
                f"{len(self.labels)} probabilities"
            ) from error


def marked_sentence(values: Mapping[str, str], *, location: str) -> str:
    """Returns the sentence of an item with markers around its two entities.

    As in KLUE-baseline, entities that overlap repeat their common characters.

    Args:
        values: The values of the item by name, such as "sentence" and "subject_entity.start_idx".
        location: Where the item was read, for error messages.

    Raises:
        InputError: An entity is not in the sentence at its indices, or both are the same.
    """
    sentence, parts, position = values["sentence"], [], 0
    spans = {entity: _span(values, entity, location=location) for entity in _ENTITIES}
    if len({*spans.values()}) == 1:
        raise InputError(
            f"{location} has the same characters as subject_entity and object_entity; expected two "
            "entities"
        )
    for entity, (start, end) in sorted(spans.items(), key=lambda item: item[1]):
        first, last = _ENTITIES[entity]
        parts += [sentence[position:start], first, sentence[start:end], last]
        position = end
    return "".join([*parts, sentence[position:]])


def _span(values: Mapping[str, str], entity: str, *, location: str) -> tuple[int, int]:
    """Returns the index of the first character of an entity, and one more than that of the last."""
    word, sentence = values[f"{entity}.word"], values["sentence"]
    texts = [values[f"{entity}.{name}"] for name in _INDICES]
    start, last = (int(text) if text.isdecimal() else -1 for text in texts)
    if not 0 <= start <= last < len(sentence):
        raise InputError(
            f"{location} has the characters {' to '.join(texts)} as {entity}, in a sentence of "
            f"{len(sentence)} characters; expected the indices of its first and last character"
        )
    if sentence[start : last + 1] != word:
        raise InputError(
            f"{location} has the {entity} {word!r}, but the characters {start} to {last} are "
            f"{sentence[start : last + 1]!r}; correct the indices or the word"
        )
    return start, last + 1


def mean_auprc(gold: Sequence, probabilities_NL: np.ndarray, *, labels: Sequence[str]) -> float:
    """Returns the mean area under the precision-recall curves of the labels that occur in `gold`.

    KLUE-baseline computes the same (metrics/functional.py, `klue_re_auprc`) for data that has
    every label.

    Args:
        gold: The true label of each example.
        probabilities_NL: The predicted probabilities, in the order of `labels`.
        labels: The labels.
    """
    from sklearn.metrics import auc, precision_recall_curve

    areas = []
    for label, probabilities_N in zip(labels, probabilities_NL.T, strict=True):
        is_label = [each == label for each in gold]
        if any(is_label):
            precision, recall, _ = precision_recall_curve(is_label, probabilities_N)
            areas.append(auc(recall, precision))
    return float(np.mean(areas))


KLUE_RE_TASK = KlueReTask(name="klue-re", labels=RELATIONS)

"""Labels of words: named entities, parts of speech (Devlin et al. 2018, section 5.3)."""

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bert_keras.errors import InputError, counted
from bert_keras.kinds.classifier import MULTI_LABEL, SINGLE_LABEL
from bert_keras.kinds.kind import Kind, softmax
from bert_keras.kinds.span import NONE, with_marks
from bert_keras.kinds.words import (
    OUTSIDE,
    TAG,
    Sentence,
    TaggedWords,
    bio_tags,
    find_entities,
    make_rows,
    tokenize_units,
    tokenize_words,
)
from bert_keras.text.columns import as_list, check_num_columns, checked_columns, checked_list

if TYPE_CHECKING:
    from markupsafe import Markup


def word_logits(rows: TaggedWords, outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns the logits of the words of each row; `outputs` has the logits of its T tokens."""
    return [output[rows.columns(row)] for row, output in enumerate(outputs)]


def word_losses() -> dict[str, Any]:
    """Returns arguments of `compile`: the loss is the mean over words."""
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight"
    )
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    return {"loss": loss, "weighted_metrics": [accuracy]}


class Tagger(Kind):
    """Texts, or lists of words, with a tag for each word; entities are predicted."""

    model = "BertTokenClassifier"
    heads = ("token_labels",)
    is_labelled = True
    transformers_class = "ForTokenClassification"
    weight_names: ClassVar = {"token_labels/dense": "classifier"}
    head_weight = "token_labels/dense/kernel"
    signatures = "token_classifier"
    answers_texts = True
    example_labels = '["O", "B-PER", "I-PER"]'
    ids_rank = 2

    @classmethod
    def check_new_labels(cls, labels: Sequence[str], *, source: str):
        super().check_new_labels(labels, source=source)
        wrong = [label for label in labels if not TAG.fullmatch(label)]
        if OUTSIDE in labels and wrong:
            raise InputError(f"labels has {wrong[:1]}; expected O, B-TYPE and I-TYPE")

    def encoded(self, columns: Sequence[list], labels: Any = None):
        check_num_columns(columns, 1, 1)
        (texts,) = columns
        if any(isinstance(text, str) for text in texts):
            texts = checked_list(texts)
            unit = self.metadata.task.get("unit", "word")
            tokens, spans_W2 = tokenize_units(texts, self.tokenizer, unit=unit)
        else:
            texts = [checked_columns(words)[0] for words in texts]
            sentences = [Sentence(tuple(words), None, 0, 1) for words in texts]
            tokens = tokenize_words(sentences, self.tokenizer)
            # The characters of each word in the text that `answers` joins by spaces
            ends = [np.cumsum([len(word) + 1 for word in words], dtype=int) - 1 for words in texts]
            ends_W = np.concatenate(ends)
            lengths_W = np.array([len(word) for words in texts for word in words], int)
            spans_W2 = np.stack([ends_W - lengths_W, ends_W], axis=1)
        label_ids = np.full(len(tokens.starts), -1, np.int32)
        if labels is not None:
            names, num_words = self.metadata.labels, np.diff(tokens.word_bounds).tolist()
            labels = as_list(labels)
            labels = [tags if isinstance(tags, (list, tuple)) else [tags] for tags in labels]
            for index, (tags, count) in enumerate(zip(labels, num_words, strict=True)):
                location = f"text [{index}]"
                if len(tags) != count:
                    found = f"{counted(count, 'word')} and {counted(len(tags), 'tag')}"
                    raise InputError(f"{location} has {found}; give as many, or lists of words")
                MULTI_LABEL.check(tags, names, location=location)
            label_ids = SINGLE_LABEL.targets(list(chain.from_iterable(labels)), names)
        rows = make_rows(tokens, limit=self.metadata.max_length - 2)
        return TaggedWords(tokens, rows, label_ids, self.tokenizer.vocabulary, spans_W2)

    def compile_arguments(self):
        return word_losses()

    def answers(self, columns: Sequence[list], rows: Any, outputs: Sequence):
        labels = bio_tags(self.metadata.labels)
        no_words = np.zeros((0, len(labels)), np.float32)  # texts without words have no rows
        probabilities = softmax(np.concatenate([no_words, *word_logits(rows, outputs)]))
        tags = [labels[label_id] for label_id in probabilities.argmax(axis=-1)]
        answers = []
        bounds = pairwise(rows.tokens.word_bounds)
        for text, (first, last) in zip(columns[0], bounds, strict=True):
            text = text if isinstance(text, str) else " ".join(text)
            answer = {name: [] for name in ("entities", "labels", "starts", "ends", "scores")}
            for start_word, end_word, label in find_entities(tags[first:last]):
                words = slice(first + start_word, first + end_word)
                start, end = rows.spans_W2[words][[0, -1], [0, 1]].tolist()
                entity = with_marks(text, start, end)
                score = float(probabilities[words].max(axis=-1).mean())
                values = (entity, label, start, start + len(entity), score)
                for name, value in zip(answer, values, strict=True):
                    answer[name].append(value)
            answers.append(answer)
        return answers

    def outputs(self, inputs: Mapping[str, np.ndarray], logits: Any) -> dict:
        probabilities_BTN = softmax(logits) * (inputs["input_mask"] > 0)[:, :, None]
        return {
            "label_ids": probabilities_BTN.argmax(axis=-1).astype(np.int32),
            "label_names": [[*self.metadata.labels]] * len(logits),
            "probabilities": probabilities_BTN.astype(np.float32),
        }

    @classmethod
    def lines(cls, answer: dict):
        rows = zip(answer["entities"], answer["labels"], answer["scores"], strict=True)
        return [f"{entity} {label} {score:.3f}" for entity, label, score in rows] or ["no entity"]

    @classmethod
    def findings(cls, task: Any, examples: Sequence, predictions: Sequence):
        """Returns the scores of entity types, a confusion matrix of types, and wrong sentences."""
        from bert_keras.reports.evaluation import Findings, confusion_matrix, label_scores
        from bert_keras.reports.page import mark

        sets, pairs, errors = [], [], []
        for sentence, tags in zip(examples, predictions, strict=True):
            gold, predicted = set(find_entities(sentence.tags or ())), set(find_entities(tags))
            sets.append((gold, predicted))
            types = [{entity[:2]: entity[2] for entity in found} for found in (gold, predicted)]
            pairs += [tuple(each.get(span, NONE) for each in types) for span in types[0] | types[1]]
            if gold != predicted:
                cells = [mark("", note=f"line {sentence.line}")]
                for shown, correct in ((gold, predicted), (predicted, gold)):
                    cells.append(_mark_entities(sentence, shown, correct, task.word_separator))
                errors.append((len(gold ^ predicted), cells))
        names = sorted(set(chain.from_iterable(pairs)) - {NONE})
        sections = [
            label_scores("Types", sets, label=itemgetter(2)),
            confusion_matrix("Types of entities with the same words", pairs, [*names, NONE]),
        ]
        order = "sentences with the most wrong entities first; correct entities are green"
        return Findings(sections, ["sentence", "gold", "predicted"], errors, order)


class FeatureTagger(Tagger):
    """Labels of words from frozen features; only a task trains it, because it reads no texts."""

    model = "BertFeatureTagger"
    module = "bert_keras.models.feature_tagger"
    heads = ("tagger",)
    student = "BertEncoder"  # the head may read more layers than a student has
    transformers_class = head_weight = signatures = ""
    weight_names: ClassVar = {}
    answers_texts = False


def _mark_entities(sentence: Sentence, shown: set, correct: set, separator: str) -> "Markup":
    from markupsafe import Markup

    from bert_keras.reports.page import mark

    starts = {start: (end, entity_type) for start, end, entity_type in shown}
    parts, position = [], 0
    while position < len(sentence.words):
        end, entity_type = starts.get(position, (position + 1, ""))
        color = "good" if (position, end, entity_type) in correct else "bad"
        text = separator.join(sentence.words[position:end])
        parts.append(mark(f"{text} ", color, note=entity_type) if entity_type else mark(text))
        position = end
    return Markup(separator).join(parts)

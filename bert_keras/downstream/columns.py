"""What models do with columns of texts in memory: rows for Keras, and the answers of the server."""

import dataclasses
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import keras
import numpy as np

from bert_keras.config import FINE_TUNING, WARMUP_RATIO, default_recipe
from bert_keras.data.encoded import Encoded
from bert_keras.downstream.catalog import task_of
from bert_keras.downstream.labels import LABEL_KINDS, OneLabel
from bert_keras.downstream.ner.tags import Sentence, bio_tag, entities
from bert_keras.downstream.ner.task import NER_TASK
from bert_keras.downstream.ner.words import TaggedWords, sentence_rows, units_of, word_tokens
from bert_keras.downstream.squad.answers import cut, spans
from bert_keras.downstream.squad.questions import Answer, Question
from bert_keras.downstream.squad.task import SquadTask
from bert_keras.downstream.squad.windows import QuestionWindows
from bert_keras.downstream.task import softmax
from bert_keras.errors import InputError, check, check_name, counted, quoted
from bert_keras.text.columns import columns_of
from bert_keras.training.optimizer import BertAdamW
from bert_keras.training.schedule import LinearWarmupDecay


class TextColumns:
    """Columns of N texts for a model that embeds them; the other classes are for other models."""

    has_labels = False  # whether every loss reads labels

    def __init__(self, model: Any):
        self.model, self.preprocessor = model, model.preprocessor
        self.metadata = model.stored_metadata(self.preprocessor.tokenizer)

    def encoded(self, columns: Sequence[list], labels=None) -> Encoded:
        """Returns the rows of the texts with the targets of the loss; None means no labels."""
        rows = self.preprocessor.encoded(columns)
        return rows if labels is None else dataclasses.replace(rows, targets=self.targets(labels))

    def targets(self, labels) -> np.ndarray:
        """Returns the targets of labels, which are a list or an array."""
        return np.asarray(labels)

    def with_fitting_loss(self, targets: np.ndarray) -> np.ndarray:
        """Returns the targets; raises InputError if a loss of Keras cannot read their shape."""
        expected = type(keras.tree.flatten(self.compile_arguments()["loss"])[0]).__name__
        needs_sparse = expected.startswith("Sparse") and targets.ndim == 1
        for loss in filter(None, keras.tree.flatten(self.model.compiled and self.model.loss)):
            name = getattr(loss, "name", getattr(loss, "__name__", loss))
            is_own = not keras.losses.get(loss).__module__.startswith("keras.")
            found = f"the loss {name} does not fit labels of the shape {targets.shape}"
            remedy = f"omit compile, or use {expected}()".replace("py()", "py(from_logits=True)")
            check(is_own or ("sparse" in name.lower()) == needs_sparse, f"{found}; {remedy}")
        return targets

    def class_weights(self, weights: dict) -> dict:
        """Returns the weights of labels by their numbers."""
        raise InputError(f"{type(self.model).__name__} takes no class_weight for texts")

    def answers(self, columns: Sequence[list], encoded: Any, outputs: list) -> Any:
        """Returns the answer for each text from the float32 outputs of each row."""
        return np.stack(outputs)

    def compile_arguments(self) -> dict[str, Any]:
        """Returns the arguments of `compile` that follow from the kind of the labels."""
        raise InputError(
            f"{type(self.model).__name__} has no default loss for texts; compile it with one, or "
            'use finetune("sentence-pairs", ...)'
        )

    def compile(self, *, num_steps: int, name: str, learning_rate: float | None = None) -> str:
        """Compiles the model for the steps of a fit; returns what it set."""
        values = FINE_TUNING[default_recipe(self.metadata.config.hidden_size)]
        rate = learning_rate or values["learning_rate"]
        num_warmup_steps = int(WARMUP_RATIO * num_steps)
        schedule = LinearWarmupDecay(rate, num_steps=num_steps, num_warmup_steps=num_warmup_steps)
        arguments = self.compile_arguments()
        self.model.compile(BertAdamW(schedule, name=name), **arguments)
        loss = keras.tree.flatten(arguments["loss"])[0].name
        start = f"rising to {rate:g} over {counted(num_warmup_steps, 'step')}, then"
        start = start if num_warmup_steps else f"{rate:g},"
        change = f"{start} falling to 0 at step {num_steps:,}"
        return f"BertAdamW, learning rate {change}; loss {loss}"


class LabelledTexts(TextColumns):
    """Texts or pairs of texts with one label, several labels or a number each."""

    has_labels = True

    @property
    def kind(self) -> OneLabel:
        """The rules of the labels; a single label without a problem type is a number."""
        if not self.metadata.problem_type and len(self.metadata.labels) == 1:
            return LABEL_KINDS["number"]
        kinds = {kind.problem_type: kind for kind in LABEL_KINDS.values()}
        return kinds.get(self.metadata.problem_type, LABEL_KINDS["one"])

    def encoded(self, columns, labels=None):
        names, count = self.metadata.text_columns, len(columns)
        found = f"the texts are {counted(count, 'list')}, and the model reads {' and '.join(names)}"
        form = "a list" if len(names) == 1 else "a tuple of two lists, (firsts, seconds)"
        is_fitting = labels is not None or not names or len(names) == count
        check(is_fitting, f"{found}; expected {form}")
        return super().encoded(columns, labels)

    def targets(self, labels):
        (values,) = columns_of(labels)
        missing = [number for number, each in enumerate(values) if each is None]
        check(not missing, f"text {missing[:1]} has the label None; leave such texts out")
        are_lists = all(isinstance(each, (list, tuple, set)) for each in values)
        if are_lists and all(isinstance(name, str) for each in values for name in each):
            problem_type = LABEL_KINDS["many"].problem_type
            self.metadata = dataclasses.replace(self.metadata, problem_type=problem_type)
            self.model.metadata = self.metadata
        elif not any(isinstance(each, str) for each in values):
            is_one = self.kind is LABEL_KINDS["one"]
            has_own_loss = self.model.compiled and not self.model.is_compiled_by_fit
            found = f"the labels have the shape {np.shape(labels)}"
            is_row = np.ndim(labels) == 1 or not is_one or has_own_loss
            check(is_row, f"{found}; expected a name or a number for each text, or compile a loss")
            if not is_one:
                return self.with_fitting_loss(np.asarray(labels))
            ids = _ids(labels, len(self.metadata.labels))
            is_whole = has_own_loss or (ids == np.round(ids)).all()
            check(is_whole, "a label is no whole number; a model of numbers has labels=1")
            return self.with_fitting_loss(ids)
        for number, each in enumerate(values):
            location = f"text [{number}]"
            if isinstance(each, str):
                values[number] = self.kind.read(each, location=location)
            self.kind.check(values[number], self.metadata.labels, location=location)
        return self.with_fitting_loss(self.kind.targets(values, self.metadata.labels))

    def class_weights(self, weights):
        is_one, names = self.kind is LABEL_KINDS["one"], self.metadata.labels
        check(is_one, "class_weight is for texts with one label each; give sample_weight")
        for label in weights:
            check_name(label, (*names, *range(len(names))), what="label")
        return {n: weights.get(name, weights.get(n, 1.0)) for n, name in enumerate(names)}

    def compile_arguments(self):
        return self.kind.compile_arguments()

    def answers(self, columns, encoded, outputs):
        kind, labels = self.kind, self.metadata.labels
        predictions = [kind.prediction(logits, labels) for logits in outputs]
        if kind is LABEL_KINDS["number"]:
            return [{"score": each.label} for each in predictions]
        return [
            {
                "label": kind.to_text(label),
                "labels": [*labels],
                "probabilities": np.asarray(probabilities).tolist(),
            }
            for label, probabilities in predictions
        ]


class Choices(LabelledTexts):
    """Contexts and columns of choices, and the number of the right choice of each."""

    def encoded(self, columns, labels=None):
        rows = self.preprocessor.encoded(columns)
        count = len(columns) - 1
        targets = None if labels is None else self.with_fitting_loss(_ids(labels, count))
        return dataclasses.replace(rows, targets=targets)

    def class_weights(self, weights):
        return weights

    def answers(self, columns, encoded, outputs):
        is_real = np.array([[text != "" for text in row] for row in zip(*columns[1:], strict=True)])
        logits = np.where(is_real, np.stack(outputs), np.finfo(np.float32).min)
        probabilities = np.where(is_real, softmax(logits), 0.0)
        pairs = zip(probabilities.argmax(axis=1).tolist(), probabilities.tolist(), strict=True)
        return [{"choice": choice, "probabilities": each} for choice, each in pairs]


class Questions(TextColumns):
    """Questions and passages, with answers (first character, text) or dicts as in SQuAD."""

    has_labels = True

    def __init__(self, model):
        super().__init__(model)
        name = str(self.metadata.task.get("name", "squad1"))
        task: Any = task_of(self.metadata, name=name, source="the model")
        self.task: SquadTask = dataclasses.replace(task, max_length=self.metadata.max_length)

    def encoded(self, columns, labels=None):
        counts, expected = [*map(len, columns)], "expected two, (questions, passages)"
        check(len(counts) == 2, f"the texts are {counted(len(counts), 'list')}; {expected}")
        check(counts[0] == counts[1], f"the lists have {counts} texts; expected equally many")
        questions = []
        for number, (question, context) in enumerate(zip(*columns, strict=True)):
            answers = () if labels is None else _answers(labels[number])
            location = f"text [{number}]"
            each = Question(
                id="", question=question, context=context, answers=answers, location=location
            )
            check(each.target or not answers, each.misplaced)
            questions.append(each)
        rows = self.task.encode(questions, self.preprocessor.tokenizer)
        if labels is not None:
            self.with_fitting_loss(rows.targets["start"])
        return rows

    def compile_arguments(self):
        return self.task.compile_arguments()

    def answers(self, columns, encoded: QuestionWindows, outputs):
        answers = []
        for number, context in enumerate(columns[1]):
            nulls = (outputs[row] for row in encoded.of_question(number))
            null_score = min(float(each["start"][0]) + float(each["end"][0]) for each in nulls)
            score, text, start = float(np.finfo(np.float32).min), "", -1
            for best in spans(
                encoded, number, outputs, self.task.max_answer_length, context=context
            ):
                score = best.start_logit + best.end_logit
                if not self.task.allows_no_answer or null_score - score <= self.task.null_threshold:
                    start, end = encoded.offsets[[best.first, best.last], [0, 1]].tolist()
                    text = cut(context, start, end)
                break
            answer = {"answer": text, "start": start, "end": start + len(text)}
            answers.append({**answer, "score": score, "no_answer_score": null_score})
        return answers


class TaggedTexts(TextColumns):
    """Texts, or lists of words, with a tag for each word; entities are predicted."""

    has_labels = True

    def encoded(self, columns, labels=None):
        check(len(columns) == 1, f"there are {len(columns)} columns of texts; expected one")
        (texts,), tokenizer = columns, self.preprocessor.tokenizer
        if isinstance(texts[0], str):
            unit = self.metadata.task.get("unit", "word")
            tokens, self.spans_W2 = units_of(texts, tokenizer, unit=unit)
        else:
            tokens = word_tokens([Sentence((*each,), None, 0, 1) for each in texts], tokenizer)
            ends = [np.cumsum([len(word) + 1 for word in each], dtype=int) - 1 for each in texts]
            lengths = np.array([len(word) for each in texts for word in each], int)
            self.spans_W2 = np.concatenate(ends)[:, None] - np.outer(lengths, (1, 0))
        label_ids = np.full(len(tokens.starts), -1, np.int32)
        if labels is not None:
            names = self.metadata.labels
            for number, tags in enumerate(labels):
                location, count = f"text [{number}]", np.diff(tokens.word_bounds)[number]
                found = f"{location} has the tags {quoted(tags)}; expected a list of strings"
                check(isinstance(tags, (list, tuple, np.ndarray)), found)
                found = f"{location} has {counted(int(count), 'word')}"
                found = f"{found} and {counted(len(tags), 'tag')}"
                check(len(tags) == count, f"{found}; expected a tag for each, or lists of words")
                check(None not in tags, f"{location} has the tag None; 'O' is the tag of no name")
                LABEL_KINDS["many"].check(tags, names, location=location)
            label_ids = LABEL_KINDS["one"].targets([*chain.from_iterable(labels)], names)
            self.with_fitting_loss(label_ids)
        rows = sentence_rows(tokens, limit=self.preprocessor.max_length - 2)
        return TaggedWords(tokens, rows, label_ids, tokenizer.vocabulary)

    def compile_arguments(self):
        return NER_TASK.compile_arguments()

    def answers(self, columns, encoded: TaggedWords, outputs):
        labels, bounds = self.metadata.labels, pairwise(encoded.tokens.word_bounds)
        empty = np.zeros((0, len(labels)), np.float32)  # without words, there are no rows
        logits = [output[encoded.columns(row)] for row, output in enumerate(outputs)]
        probabilities = softmax(np.concatenate([empty, *logits]))
        tags = [bio_tag(labels[each]) for each in probabilities.argmax(axis=-1)]
        answers = []
        for text, (first, last) in zip(columns[0], bounds, strict=True):
            text = text if isinstance(text, str) else " ".join(text)
            answer = {name: [] for name in ("entities", "labels", "starts", "ends", "scores")}
            for start_word, end_word, kind in entities(tags[first:last]):
                words = slice(first + start_word, first + end_word)
                start, end = self.spans_W2[words][[0, -1], [0, 1]].tolist()
                entity, score = cut(text, start, end), probabilities[words].max(axis=-1).mean()
                values = (entity, kind, start, start + len(entity), float(score))
                for name, value in zip(answer, values, strict=True):
                    answer[name].append(value)
            answers.append(answer)
        return answers


def _ids(labels, count: int) -> np.ndarray:
    ids = np.asarray(labels)
    check(ids.dtype.kind in "biuf", f"a label is {quoted(labels[0])}; expected 0 to {count - 1}")
    if ids.ndim == 1 and ids.size:  # other targets have other losses
        for each in (ids.min(), ids.max()):
            check(0 <= each < count, f"a label is {each}; expected 0 to {count - 1}")
    return ids


def _answers(answer) -> tuple[Answer, ...]:
    """Returns the answers of a question; () if there is none."""
    try:
        if isinstance(answer, dict):
            texts, starts = answer["text"], answer["answer_start"]
            is_one = isinstance(texts, str)
            answer = (starts, texts) if is_one else [*zip(starts, texts, strict=True)]
        pairs = answer if isinstance(answer, list) else [answer] if answer else []
        return tuple(Answer(text, int(start)) for start, text in pairs)
    except (KeyError, TypeError, ValueError) as error:
        found = f"an answer is {quoted(answer)}; expected (first character, text)"
        raise InputError(f"{found}, as in (4, 'Peter')") from error


# Class of the model, as in checkpoints -> what it does with columns of texts.
TEXT_COLUMNS: dict[str, type[TextColumns]] = {
    "BertClassifier": LabelledTexts,
    "BertMultipleChoice": Choices,
    "BertQuestionAnswering": Questions,
    "BertTokenClassifier": TaggedTexts,
    "BertSentenceEncoder": TextColumns,
}

"""Lets `fit`, `evaluate` and `predict` of a model take texts."""

import dataclasses
import inspect
import itertools
import numbers
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from types import GeneratorType
from typing import Any

import keras
import numpy as np

from bert_keras.config import FINE_TUNING, WARMUP_RATIO, default_recipe, warn_high_rate
from bert_keras.data.encoded import Encoded, longest_first_batches, print_num_truncated
from bert_keras.data.preprocessor import Preprocessor
from bert_keras.errors import (
    InputError,
    check_argument,
    check_count,
    counted,
    print_field,
    quoted,
    suggest_keyword_names,
    unexpected_value,
)
from bert_keras.kinds.kind import Kind, finite_numbers
from bert_keras.models import text_rows
from bert_keras.models.pretrained import Pretrained, check_inputs
from bert_keras.text.columns import as_list, columns_of, is_text
from bert_keras.training.optimizer import BertAdamW, LinearWarmupDecay

_BATCH_SIZE = FINE_TUNING["paper"]["batch_size"]
_FIT_OPTIMIZER = "bert_adamw_of_fit"  # name of the optimizer that `fit` sets without `compile`


class TextInputs(Pretrained):
    """The base class of models whose `fit`, `evaluate` and `predict` also take texts."""

    @property
    def preprocessor(self) -> Preprocessor | None:
        """Converts texts to inputs of the model; None if the model has no tokenizer."""
        return None if self.tokenizer is None else self._kind().preprocessor

    @preprocessor.setter
    def preprocessor(self, preprocessor: Preprocessor) -> None:
        metadata = self.stored_metadata(preprocessor.tokenizer)
        self.metadata = dataclasses.replace(metadata, max_length=preprocessor.max_length)
        self.tokenizer = preprocessor.tokenizer

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels in the order of the logits, or () for a model without labels."""
        return (self.metadata or self.new_metadata()).labels

    def compile(self, optimizer: Any = "rmsprop", loss: Any = None, *args, **kwargs):
        """Configures the training as Keras does; warns if a loss expects probabilities."""
        for each in keras.tree.flatten(loss):
            # Keras builds a loss that is given by its name with from_logits=False.
            is_named = isinstance(each, str) and each.lower().endswith("crossentropy")
            if is_named or getattr(each, "from_logits", True) is False:
                name = getattr(each, "name", each)
                message = f"the loss {name} expects probabilities; pass one with from_logits=True"
                warnings.warn(message, stacklevel=2)
        super().compile(optimizer, loss, *args, **kwargs)

    @suggest_keyword_names
    def fit(  # noqa: PLR0913 - the arguments of keras.Model.fit in their order, then ours
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: str | int = "auto",
        callbacks: Sequence[keras.callbacks.Callback] | None = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Mapping[str | int, float] | Sequence[float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int | Sequence[int] = 1,
        *,
        learning_rate: float | None = None,
    ) -> keras.callbacks.History:
        """Trains the model on texts, or on anything that `keras.Model.fit` takes.

        Without `compile`, this sets BertAdamW with warmup and decay, and the loss and the metric of
        the kind of labels, and prints them; a second call starts a new optimizer and schedule.
        Texts of similar length share a batch. Texts of more than `preprocessor.max_length` tokens
        are truncated, and their number is printed to stderr.

        Args:
            x: N texts: a list, an array, a pandas column or a tensor of strings, or a tuple of such
                columns for texts that belong together, such as (firsts, seconds). Or a
                `tf.data.Dataset` of batches of texts and their integer label ids, or other inputs
                of Keras, such as arrays that `preprocessor(texts)` returns.
            y: The labels of N texts. BertClassifier: names, lists of names or numbers.
                BertTokenClassifier: a list of tags for each text. BertQuestionAnswering: (first
                character, answer), or None. BertMultipleChoice: the index of the right choice.
            batch_size: Texts per batch; by default 32.
            epochs: The epoch at which the training ends; 0 trains nothing.
            verbose: 0 prints nothing, 1 a progress bar, 2 a line for each epoch.
            callbacks: Objects of `keras.callbacks`, such as `EarlyStopping(patience=1)`.
            validation_split: Fraction of the texts to hold out and score after each epoch, taken
                evenly from each label, such as 0.1.
            validation_data: The data to score after each epoch: (texts, labels), (texts, labels,
                weights) or a `tf.data.Dataset`. With it, `validation_split` has no effect.
            shuffle: Whether to shuffle the texts in each epoch.
            class_weight: Weights of labels in the loss, by name or id, or an array of all weights.
            sample_weight: The weights of the N texts in the loss.
            initial_epoch: The epoch at which the training starts, from 0.
            steps_per_epoch: Batches per epoch; by default each text once.
            validation_steps: Batches to score; by default all.
            validation_batch_size: Texts per batch when scoring; by default `batch_size`.
            validation_freq: Epochs between two scorings, or a list of the epochs to score.
            learning_rate: The largest rate, reached after a tenth of the steps; it then falls to 0.
                By default 3e-5, or 1e-4 for hidden sizes under 768. Only without `compile`.

        Returns:
            The `History` of Keras. Its `history` is a dict of the values of each epoch: `loss`,
            metrics such as `accuracy`, and `val_loss` and so on for the validation data.
        """
        check_count("epochs", epochs, least=0)
        check_count("batch_size", batch_size)
        check_count("validation_batch_size", validation_batch_size)
        check_count("steps_per_epoch", steps_per_epoch)
        check_count("validation_steps", validation_steps)
        # fit compiles the model in each call unless the caller called compile().
        is_compiled_by_caller = self.compiled and self.optimizer.name != _FIT_OPTIMIZER
        uses_default_optimizer = self.tokenizer is not None and not is_compiled_by_caller
        _check_callbacks(callbacks, uses_default_optimizer=uses_default_optimizer)
        _check_rates(validation_split, learning_rate, uses_default_optimizer=uses_default_optimizer)
        size = batch_size or _BATCH_SIZE
        validation_size = validation_batch_size or size
        held_out = validation_split if validation_data is None else 0.0
        encoded_sets: list[Encoded] = []  # `print_num_truncated` counts their truncated texts

        # Reading texts and labels may raise an error, so the model is changed only afterwards.
        kind = self._kind()
        columns = columns_of(x) if is_text(x) else ()
        if columns:
            kind = self._text_kind() if y is None else self._text_kind().for_labels(y)
            rows = text_rows.encode_rows(self, kind, columns, y, sample_weight)
            encoded_sets.append(rows)
            labels = [""] * len(columns[0]) if y is None else as_list(y)
            train_indices, validation_indices = text_rows.hold_out(rows, labels, fraction=held_out)
            steps_per_epoch = steps_per_epoch or -(-len(train_indices) // size)
            weight_by_label_id = text_rows.weights_by_id(kind, class_weight)
            fit_arguments = _text_arguments(rows, train_indices, weight_by_label_id, size, shuffle)
            if len(validation_indices):  # then the caller gave no validation_data
                batches = text_rows.ordered_batches(rows, validation_indices, validation_size)
                validation_data = batches.for_fit()  # `_encode_validation` keeps encoded batches
        else:
            fit_arguments = self._other_arguments(kind, x, y, sample_weight, class_weight)
            if held_out and not isinstance(fit_arguments["x"], Mapping):
                raise InputError("validation_split needs texts or arrays; pass validation_data")
            fit_arguments |= {"batch_size": batch_size, "shuffle": shuffle}
            fit_arguments["validation_split"] = held_out
        if validation_data is not None:
            sets, validation_data = self._encode_validation(kind, validation_data, validation_size)
            fit_arguments["validation_data"] = validation_data
            encoded_sets += sets

        if uses_default_optimizer:
            num_batches = steps_per_epoch or _num_batches(fit_arguments["x"], size)
            steps = max(1, (epochs - initial_epoch) * num_batches)
            text = self._compile_default(kind, steps, learning_rate)
            if verbose != 0:
                print_field("compiled", text)
        if columns:  # stored names for another number of columns are dropped
            names = kind.metadata.text_columns
            names = names if len(names) == len(columns) else ()
            self.metadata = dataclasses.replace(kind.metadata, text_columns=names)
        print_num_truncated(*encoded_sets, max_length=kind.metadata.max_length)
        self._reset_if_rank_changed("train_function", fit_arguments["x"])
        return super().fit(
            **fit_arguments,
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            validation_batch_size=validation_batch_size,
            validation_freq=validation_freq,
        )

    def evaluate(  # noqa: PLR0913 - the arguments of keras.Model.evaluate in their order
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: str | int = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Sequence[keras.callbacks.Callback] | None = None,
        return_dict: bool = False,
        **kwargs,
    ) -> Any:
        """Computes the loss and the metrics on texts, or on anything that Keras takes.

        Args:
            x: N texts, or other inputs, as for `fit`.
            y: The labels of the texts, as for `fit`.
            batch_size: Texts per batch; by default 32.
            verbose: 0 prints nothing, 1 a progress bar, 2 a line.
            sample_weight: The weights of the N texts in the loss.
            steps: Batches to score; by default all.
            callbacks: Objects of `keras.callbacks`.
            return_dict: Whether to return a dict instead of a list.
            **kwargs: Arguments that Keras passes when `fit` calls this.

        Returns:
            The loss (float) or, if there are metrics, a list of the loss and the metrics (floats).
            With `return_dict`, a dict of these values by name, such as `loss` and `accuracy`.
        """
        is_called_by_fit = "_use_cached_eval_dataset" in kwargs
        for name in kwargs if not is_called_by_fit else ():
            check_argument(name, inspect.signature(self.evaluate).parameters, function="evaluate")
        check_count("batch_size", batch_size)
        _check_callbacks(callbacks)
        if is_text(x):
            kind = self._text_kind()  # the model's own kind, even where fit would change it for y
            rows = text_rows.encode_rows(self, kind, x, y, sample_weight)
            print_num_truncated(rows, max_length=kind.metadata.max_length)
            size = batch_size or _BATCH_SIZE
            data = {"x": text_rows.ordered_batches(rows, np.arange(len(rows)), size).for_fit()}
            if not self.compiled:
                self._compile_default(kind, 1)  # for loss and metrics; a later fit compiles anew
        else:
            if not is_called_by_fit:  # `fit` has checked its data
                kind = self._kind()
                x, y, sample_weight = self._encode_or_check(x, y, sample_weight, label_kind=kind)
            data = {"x": x, "y": y, "batch_size": batch_size, "sample_weight": sample_weight}
        self._reset_if_rank_changed("test_function", data["x"])
        options = {"steps": steps, "callbacks": callbacks, "return_dict": return_dict}
        return super().evaluate(**data, verbose=verbose, **options, **kwargs)

    @suggest_keyword_names
    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: str | int = "auto",
        steps: int | None = None,
        callbacks: Sequence[keras.callbacks.Callback] | None = None,
    ) -> Any:
        """Returns answers for texts, as the REST API does, and raw outputs for other inputs.

        Args:
            x: N texts as for `fit`. For a `tf.data.Dataset` and other inputs, such as
                `preprocessor(texts)`, the outputs are returned as `keras.Model.predict` does.
            batch_size: Texts per batch; by default 32.
            verbose: 0 prints nothing, 1 a progress bar, 2 a line.
            steps: Batches to predict; by default all.
            callbacks: Objects of `keras.callbacks`.

        Returns:
            For N texts, a list of N dicts in their order, with Python ints and floats. A
            BertSentenceEncoder returns embeddings instead: float32 [N, E] for N texts, or [N, G, E]
            for G columns.

            - BertClassifier: `label` (str; commas separate several labels), `labels` (all names)
                and `probabilities` (a float for each name). A regression has `score` (float).
            - BertTokenClassifier: lists with a value for each entity: `entities` and `labels`
                (str), `starts` and `ends` (int, characters of the text or of the words joined by
                spaces), and `scores` (float).
            - BertQuestionAnswering: `answer` (str, "" if there is none), `start` and `end` (int,
                characters of the passage, or -1), `score` and `no_answer_score` (float, sums of
                logits).
            - BertMultipleChoice: `choice` (int, from 0), `probabilities` (a float for each choice).
        """
        check_count("batch_size", batch_size)
        _check_callbacks(callbacks)
        if not is_text(x):
            x, *_ = self._encode_or_check(x)
            self._reset_if_rank_changed("predict_function", x)
            return super().predict(x, batch_size, verbose, steps, callbacks)
        size = batch_size or _BATCH_SIZE
        end = None if steps is None else steps * size
        kind = self._text_kind()
        columns = tuple(column[:end] for column in columns_of(x))
        rows = kind.encoded(columns)
        print_num_truncated(rows, max_length=kind.metadata.max_length)
        batches = longest_first_batches(rows.lengths, batch_size=size)
        outputs: list[Any] = [None] * len(rows)
        options = {"add_progbar": verbose != 0, "verbose": verbose, "epochs": 1, "model": self}
        callback_list = keras.callbacks.CallbackList(callbacks, steps=len(batches), **options)
        callback_list.on_predict_begin()
        for step, indices_B in enumerate(batches):
            callback_list.on_predict_batch_begin(step)
            batch = self.predict_on_batch(rows.batch(indices_B)[0])
            arrays = keras.tree.map_structure(lambda each: np.asarray(each, np.float32), batch)
            for place, index in enumerate(indices_B):
                outputs[index] = keras.tree.map_structure(lambda each, i=place: each[i], arrays)
            callback_list.on_predict_batch_end(step, {"outputs": batch})
        callback_list.on_predict_end()
        return kind.answers(columns, rows, outputs)

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Mapping | None = None,
        return_dict: bool = False,
    ):
        """Trains on one batch as `keras.Model.train_on_batch` does; see `fit` for texts."""
        class_weight = text_rows.weights_by_id(self._kind(), class_weight)
        batch = self._encode_or_check(x, y, sample_weight)
        return super().train_on_batch(*batch, class_weight, return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ):
        """Scores one batch as `keras.Model.test_on_batch` does; see `fit` for texts."""
        return super().test_on_batch(*self._encode_or_check(x, y, sample_weight), return_dict)

    def predict_on_batch(self, x: Any):
        """Returns outputs as `keras.Model.predict_on_batch` does; see `fit` for texts."""
        x, *_ = self._encode_or_check(x)
        self._reset_if_rank_changed("predict_function", x)
        return super().predict_on_batch(x)

    def __call__(self, inputs, *args, **kwargs):
        if args and is_text(args[0]):
            raise InputError("pass pairs of texts as one tuple: model((firsts, seconds))")
        return super().__call__(self._encode_or_check(inputs)[0], *args, **kwargs)

    def _reset_if_rank_changed(self, function: str, x) -> None:
        """Discards a compiled function of Keras if its latest inputs had another rank."""
        # One function for ranks 2 (texts) and 3 (groups, choices) would get inputs of unknown rank.
        first = next(iter(keras.tree.flatten(getattr(x, "element_spec", x))), None)
        shape = getattr(first, "shape", None)
        rank = None if shape is None else len(shape)  # None if Keras does not know it either
        ranks = self.__dict__.setdefault("_ranks", {})  # not tracked by Keras
        if ranks.setdefault(function, rank) != rank:
            setattr(self, function, None)
            ranks[function] = rank

    def _kind(self) -> Kind:
        """Returns the instance of `self.kind` with the metadata and tokenizer of the model."""
        return self.kind(self.stored_metadata(self.tokenizer), self.tokenizer)

    def _text_kind(self) -> Kind:
        """Same as `_kind`, but raises InputError if the model has no tokenizer."""
        if self.tokenizer is None:
            hint = "set model.preprocessor = Preprocessor(tokenizer, max_length=128)"
            found = f"this {type(self).__name__} has no tokenizer for texts"
            raise InputError(f"{found}; {hint}, or give input_ids")
        return self._kind()

    def _compile_default(self, kind: Kind, num_steps: int, rate: float | None = None) -> str:
        """Compiles the model with the optimizer and loss of `fit`, and describes them."""
        default = FINE_TUNING[default_recipe(self.config.hidden_size)]["learning_rate"]
        rate = float(default if rate is None else rate)
        num_warmup = int(WARMUP_RATIO * num_steps)
        schedule = LinearWarmupDecay(rate, num_steps=num_steps, num_warmup_steps=num_warmup)
        arguments = kind.compile_arguments()
        self.compile(BertAdamW(schedule, name=_FIT_OPTIMIZER), **arguments)
        rates = f"{rate:g},"
        if num_warmup:
            rates = f"rising to {rate:g} over {counted(num_warmup, 'step')}, then"
        loss = keras.tree.flatten(arguments["loss"])[0].name
        return f"BertAdamW, learning rate {rates} falling to 0 at step {num_steps:,}; loss {loss}"

    def _encode_validation(self, kind: Kind, data, size: int) -> tuple[list[Encoded], Any]:
        """Returns the encoded texts, if any, and the validation data for Keras."""
        parts = data if isinstance(data, (tuple, list)) else (data,)
        texts, labels, weights = keras.utils.unpack_x_y_sample_weight(parts)
        if not is_text(texts):
            return [], self._encode_or_check(texts, labels, weights, label_kind=kind)
        self._text_kind()  # raises InputError without a tokenizer
        rows = text_rows.encode_rows(self, kind, texts, labels, weights)
        return [rows], text_rows.ordered_batches(rows, np.arange(len(rows)), size).for_fit()

    def _other_arguments(self, kind: Kind, x, y, sample_weight, class_weight) -> dict:
        """Returns arguments of `keras.Model.fit` for inputs other than a column of texts."""
        x, y, sample_weight = self._encode_or_check(x, y, sample_weight, label_kind=kind)
        weight_by_label_id = text_rows.weights_by_id(kind, class_weight)
        if weight_by_label_id and sample_weight is not None:  # Keras takes only one of them
            sample_weight = sample_weight * text_rows.weights_of(y, weight_by_label_id)
            weight_by_label_id = None
        return {"x": x, "y": y, "sample_weight": sample_weight, "class_weight": weight_by_label_id}

    def _encode_or_check(self, x, y=None, weights=None, *, label_kind: Kind | None = None) -> tuple:
        """Returns inputs, targets and weights as Keras takes them, and checks them.

        `label_kind` is the kind that the labels of batches must fit; None leaves them unchecked.
        """
        if is_text(x) and y is None:
            return self._text_kind().preprocessor(x), None, weights
        if is_text(x):
            rows = text_rows.encode_rows(self, self._text_kind(), x, y, weights)
            return keras.utils.unpack_x_y_sample_weight(rows.batch(np.arange(len(rows))))
        if not isinstance(x, Mapping):
            return self._encode_batches(x, label_kind, y, weights), None, None
        check_inputs(x, self.config)
        if y is not None:
            y = text_rows.checked_targets(self, self._kind(), y, np.shape(x["input_ids"]))
        if weights is not None and not isinstance(weights, Mapping):
            weights = finite_numbers(weights, name="sample_weight", least=0)
        return x, y, weights

    def _encode_batches(self, x, label_kind: Kind | None, y, sample_weight):
        """Maps a `tf.data.Dataset` of texts to inputs, or checks the first batch of an iterable."""
        first, x = _first_batch(x)
        texts, labels, weights = keras.utils.unpack_x_y_sample_weight(first)
        are_texts, is_dataset = is_text(texts), hasattr(x, "element_spec")
        specs = keras.tree.flatten(texts) if are_texts and is_dataset else ()
        can_map = is_dataset and all(spec.shape.rank != 0 for spec in specs)  # not single texts
        if y is not None or sample_weight is not None:
            raise InputError("leave out y and sample_weight: the batches of x have the labels")
        if is_text(labels) or (are_texts and not can_map):
            found = f"the {type(x).__name__} yields {quoted(first)}"
            expected = "(texts, ids), as dataset.batch(32) does, or (preprocessor(texts), ids)"
            raise InputError(f"{found}; expected {expected}; texts may be a pair (firsts, seconds)")
        if not is_dataset:
            self._encode_or_check(texts, labels if label_kind else None, weights)
        elif label_kind is not None and labels is not None:
            text_rows.check_losses(self, label_kind, labels)
        if not are_texts:
            check_inputs(texts, self.config)
            return x
        preprocessor = self._text_kind().preprocessor

        def encode(*element):
            texts, labels, weights = keras.utils.unpack_x_y_sample_weight(element)
            return keras.utils.pack_x_y_sample_weight(preprocessor(texts), labels, weights)

        return x.map(encode)


def _text_arguments(rows: Any, indices, weight_by_label_id, size: int, shuffle: bool) -> dict:
    """Returns arguments of `keras.Model.fit` that train on the rows with these indices."""
    if weight_by_label_id and rows.weights is not None:  # Keras takes only one of them
        rows.weights[indices] *= text_rows.weights_of(rows.targets[indices], weight_by_label_id)
        weight_by_label_id = None
    make_batches = text_rows.shuffled_batches if shuffle else text_rows.repeated_batches
    train_batches = make_batches(rows, indices, size).for_fit()
    return {"x": train_batches, "shuffle": False, "class_weight": weight_by_label_id}


def _first_batch(x: Any) -> tuple[Any, Any]:
    """Returns (first batch or `element_spec`, x with no batch consumed)."""
    if hasattr(x, "element_spec"):
        return x.element_spec, x
    is_generator = isinstance(x, GeneratorType)
    is_table_or_array = hasattr(x, "columns") or hasattr(x, "__array__")
    is_collection = isinstance(x, (Sequence, Set, Iterator)) and not is_generator
    is_iterable = hasattr(x, "__iter__") or isinstance(x, keras.utils.PyDataset)
    if is_table_or_array or is_collection or not is_iterable:
        found = f"a {type(x).__name__}" if is_table_or_array else quoted(x)
        raise InputError(
            f"the inputs are {found}; expected a list or column of strings, such as table['text'], "
            "or the dict of arrays that model.preprocessor(texts) returns"
        )
    first = next(iter(x), None)
    # A generator yields a batch only once. The chain is a generator too, as Keras expects.
    return first, (batch for batch in itertools.chain([first], x)) if is_generator else x


def _check_callbacks(callbacks: Any, *, uses_default_optimizer: bool = False) -> None:
    changes_rate = (keras.callbacks.ReduceLROnPlateau, keras.callbacks.LearningRateScheduler)
    for entry in keras.tree.flatten(callbacks or []):
        for callback in getattr(entry, "callbacks", [entry]):  # a CallbackList has several
            if not isinstance(callback, keras.callbacks.Callback):
                raise unexpected_value("a callback", quoted(callback), "one of keras.callbacks")
            if uses_default_optimizer and isinstance(callback, changes_rate):
                found = f"{type(callback).__name__} conflicts with the schedule that fit sets"
                raise InputError(f"{found}; call model.compile first")


def _check_rates(split: Any, rate: Any, *, uses_default_optimizer: bool) -> None:
    if not isinstance(split, numbers.Real) or not 0 <= float(split) < 1:
        raise unexpected_value("validation_split", quoted(split), "at least 0 and below 1")
    if rate is not None and not (isinstance(rate, numbers.Real) and 0 < float(rate) <= 1):
        raise unexpected_value("learning_rate", quoted(rate), "more than 0, up to 1")
    if rate is not None and not uses_default_optimizer:
        raise InputError("learning_rate has no effect on your optimizer; set it in model.compile")
    warn_high_rate(float(rate or 0))


def _num_batches(x, size: int) -> int:
    """Returns the number of batches in arrays or in a data set of known length."""
    shape = getattr(keras.tree.flatten(x)[0], "shape", None)
    try:
        return len(x) if shape is None else -(-shape[0] // size)
    except TypeError as error:
        raise InputError("x has no known number of batches; pass steps_per_epoch") from error

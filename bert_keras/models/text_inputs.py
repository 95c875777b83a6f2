"""Lets `fit`, `evaluate` and `predict` of a model take texts."""

import dataclasses
import inspect
import itertools
import re
import warnings
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from bert_keras.config import FINE_TUNING, warn_high_rate
from bert_keras.data.batches import Batches, batches_of
from bert_keras.data.buckets import longest_first_batches
from bert_keras.data.encoded import Encoded, EncodedTexts, say_cut
from bert_keras.data.preprocessor import Preprocessor, columns_of, is_text
from bert_keras.errors import (
    InputError,
    check,
    check_argument,
    check_count,
    check_name,
    quoted,
    say,
)
from bert_keras.models.pretrained import Pretrained, check_inputs

if TYPE_CHECKING:
    from bert_keras.downstream.columns import TextColumns

_BATCH_SIZE = FINE_TUNING["paper"]["batch_size"]
_DEFAULT = "bert_adamw_of_fit"  # the optimizer that `fit` makes, with a schedule of its steps
_EMPTY = "the texts are an empty list; expected at least one"


class TextInputs(Pretrained):
    """The base class of models that, like their `fit`, `evaluate` and `predict`, also take texts.

    Texts are a list, an array, a pandas column or a tensor of strings, or a `tf.data.Dataset` of
    batches of them. A tuple of columns means texts that belong together, such as pairs. Rows of
    similar length share a batch. Texts of more than `preprocessor.max_length` tokens lose their
    ends, and a line on stderr counts them. Labels are names or numbers. `validation_split` takes
    its share of the rows of each label, at equal distances.

    Without `compile`, `fit` sets BertAdamW with warmup and decay and the loss of the kind of the
    labels, and prints this. `predict` returns what the server answers;
    `predict(preprocessor(texts))` returns the outputs of the model. Other inputs reach Keras
    unchanged; PyDatasets and generators yield what `preprocessor(texts)` returns.
    """

    preprocessor_class: type[Preprocessor] = Preprocessor

    @property
    def preprocessor(self) -> Preprocessor | None:
        """Converts texts to the inputs of the model; `save_pretrained` saves an assigned one.

        It is None without a tokenizer.
        """
        if self.tokenizer is None:
            return None
        max_length = self.stored_metadata(None).max_length
        return self.preprocessor_class(self.tokenizer, max_length=max_length)

    @preprocessor.setter
    def preprocessor(self, preprocessor: Preprocessor) -> None:
        found = f"preprocessor is a {type(preprocessor).__name__}"
        is_preprocessor = isinstance(preprocessor, Preprocessor)
        check(is_preprocessor, f"{found}; expected Preprocessor(tokenizer, max_length=128)")
        metadata = self.stored_metadata(preprocessor.tokenizer)
        self.metadata = dataclasses.replace(metadata, max_length=preprocessor.max_length)
        self.tokenizer = preprocessor.tokenizer

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, in the order of the logits; () for a model without labels."""
        return (self.metadata or self.new_metadata()).labels

    @property
    def is_compiled_by_fit(self) -> bool:
        """Whether `fit` or `evaluate` has chosen the optimizer and the loss."""
        return self.compiled and self.optimizer.name == _DEFAULT

    def compile(self, optimizer="rmsprop", loss=None, *args, **kwargs):
        """Configures the training as `keras.Model.compile`; warns of losses of probabilities."""
        for each in keras.tree.flatten(loss):
            is_named = isinstance(each, str) and each.lower().endswith("crossentropy")
            if is_named or getattr(each, "from_logits", True) is False:
                warnings.warn(
                    f"the loss {getattr(each, 'name', each)} expects probabilities, but this model "
                    "returns logits; give the loss object with from_logits=True",
                    stacklevel=2,
                )
        super().compile(optimizer, loss, *args, **kwargs)

    def fit(self, x=None, y=None, *args, learning_rate: float | None = None, **kwargs):
        """Trains the model on texts, or on anything that `keras.Model.fit` takes.

        Without `compile`, this sets BertAdamW and the loss and metric of the kind of labels, and
        prints them; a second call starts a new optimizer and schedule. Texts of similar length
        share a batch, and texts that are cut at `preprocessor.max_length` are counted on stderr.

        Args:
            x: Texts, or a tuple of columns such as (firsts, seconds); see the class.
            y: The labels: names, lists of names or numbers; as the class says for other models.
            learning_rate: The largest rate, after a tenth of the steps; it then falls to 0. By
                default 3e-5, or 1e-4 for hidden sizes under 768. Only without `compile`.
            *args: The arguments of Keras in their order.
            **kwargs: The arguments of Keras, such as `epochs=1`, `batch_size=32`, `callbacks`,
                `validation_data=(texts, labels)`, and `validation_split=0.1`, which takes its share
                of the rows of each label. As in Keras, `epochs=0` trains nothing.

        Returns:
            The `History` of Keras.

        Raises:
            InputError: A text, a label or an argument is not as expected.
        """
        check("max_length" not in kwargs, "max_length is an argument of from_pretrained")
        options = _named(super().fit, x, y, *args, **kwargs)
        share: float = options.get("validation_split", 0.0)
        is_rate = isinstance(learning_rate, (int, float))
        is_share = isinstance(share, (int, float)) and 0 <= share < 1
        check(is_share, f"validation_split is {share!r}; expected 0 or more, less than 1")
        found = f"learning_rate is {learning_rate!r}; expected a number above 0, up to 1"
        check(learning_rate is None or (is_rate and 0 < learning_rate <= 1), found)
        warn_high_rate(learning_rate or 0)
        size = options.get("batch_size") or _BATCH_SIZE
        held_out, held, parts = options.get("validation_data"), None, []
        first = [*held_out, ""][0] if isinstance(held_out, (list, tuple)) else held_out
        found = f"validation_data is {quoted(held_out)}"
        check(not isinstance(first, str), f"{found}; expected (texts, labels)")
        if is_text(x):
            data = (columns_of(x), _listed(y), _listed(options.pop("sample_weight", None)))
            split, numbers, reader = data, range(len(data[0][0])), self._reader()
            if options.pop("validation_split", 0.0) and held_out is None:
                held, numbers = _split(share, data[1], num_rows=len(numbers))
                check(len(numbers), f"validation_split={share} leaves no text to learn")
                held_out, split = ([_part(each, n) for each in data] for n in (held, numbers))
            parts.append(rows := self._rows(reader, *split, numbers=numbers))
            options["steps_per_epoch"] = options.get("steps_per_epoch") or -(-len(rows) // size)
            batches = _training_batches(rows, size, is_shuffled=options.pop("shuffle", True))
            options |= {"x": batches.for_fit(), "y": None, "batch_size": None, "shuffle": False}
            if weights := options.get("class_weight"):
                found = f"class_weight is {quoted(weights)}"
                check(isinstance(weights, dict), f"{found}; expected a dict of weights by label")
                names = reader.metadata.labels
                for label in weights if names else ():
                    check_name(label, (*names, *range(len(names))), what="label")
                by_id = {n: weights.get(name, weights.get(n, 1.0)) for n, name in enumerate(names)}
                options["class_weight"] = by_id or weights
        else:
            options["x"], options["y"] = self._encoded(x, y)
        if isinstance(held_out, (tuple, list)) and is_text(held_out[0]):
            try:
                parts.append(self._rows(self._reader(), *held_out, numbers=held))
            except InputError as error:
                name = "validation_data: " * ("validation_data" in options)
                raise InputError(f"{name}{error}") from error
            held_out_size = options.pop("validation_batch_size", None) or size
            options["validation_data"] = _ordered_batches(parts[-1], held_out_size).for_fit()
        elif held_out is not None:
            is_set = not isinstance(held_out, (tuple, list))
            encoded = self._encoded(held_out if is_set else held_out[0])[0]
            options["validation_data"] = encoded if is_set else held_out
        is_ours = self.is_compiled_by_fit if self.compiled else self.tokenizer is not None
        found = "learning_rate is for a model without compile; the optimizer has its own"
        check(learning_rate is None or is_ours, found)
        if is_ours:
            epochs = options.get("epochs", 1) - options.get("initial_epoch", 0)
            steps = options.get("steps_per_epoch") or _num_batches(options["x"], size)
            num_steps = max(1, epochs * steps)
            made = self._reader().compile(
                num_steps=num_steps, name=_DEFAULT, learning_rate=learning_rate
            )
            say("compiled", made)
        self._say_cut(parts)
        self._renew("train_function", options["x"])
        return super().fit(**options)

    def evaluate(self, x=None, y=None, *args, **kwargs):
        """Scores the model as `keras.Model.evaluate` does; see the class for texts."""
        options = _named(super().evaluate, x, y, *args, **kwargs)
        if is_text(x):
            reader = self._reader()
            rows = self._rows(reader, x, y, options.pop("sample_weight", None))
            self._say_cut([rows])
            size = options.pop("batch_size", None) or _BATCH_SIZE
            options |= {"x": _ordered_batches(rows, size).for_fit(), "y": None}
            if not self.compiled:
                reader.compile(num_steps=1, name=_DEFAULT)
        else:
            options["x"], options["y"] = self._encoded(x, y)
        self._renew("test_function", options["x"])
        return super().evaluate(**options)

    def predict(self, x, *args, **kwargs):
        """Returns for columns of texts what the server answers in "predictions", a dict for each.

        A regression has `score`, and a sentence encoder returns an array. For a data set and other
        inputs this returns outputs as `keras.Model.predict` does.
        """
        options = _named(super().predict, x, *args, **kwargs)
        if not is_text(x):
            options["x"], _ = self._encoded(x)
            self._renew("predict_function", options["x"])
            return super().predict(**options)
        size = options.get("batch_size") or _BATCH_SIZE
        end = None if options.get("steps") is None else options["steps"] * size
        reader, columns = self._reader(), tuple(column[:end] for column in columns_of(x))
        check(columns[0], _EMPTY)
        rows = reader.encoded(columns)
        self._say_cut([rows])
        batches = longest_first_batches(rows.lengths, batch_size=size)
        verbose, outputs = options.get("verbose", "auto"), [None] * len(rows)
        callbacks = keras.callbacks.CallbackList(
            options.get("callbacks"),
            add_progbar=verbose != 0,
            model=self,
            verbose=verbose,
            epochs=1,
            steps=len(batches),
        )
        callbacks.on_predict_begin()
        for step, numbers in enumerate(batches):
            callbacks.on_predict_batch_begin(step)
            batch = self.predict_on_batch(rows.batch(numbers)[0])
            arrays = keras.tree.map_structure(lambda each: np.asarray(each, np.float32), batch)
            for index, row in enumerate(numbers):
                outputs[row] = keras.tree.map_structure(lambda each, i=index: each[i], arrays)
            callbacks.on_predict_batch_end(step, {"outputs": batch})
        callbacks.on_predict_end()
        return reader.answers(columns, rows, outputs)

    def train_on_batch(self, x, y=None, *args, **kwargs):
        """Trains on one batch as `keras.Model.train_on_batch` does; see the class for texts."""
        return super().train_on_batch(*self._encoded(x, y), *args, **kwargs)

    def test_on_batch(self, x, y=None, *args, **kwargs):
        """Scores one batch as `keras.Model.test_on_batch` does; see the class for texts."""
        return super().test_on_batch(*self._encoded(x, y), *args, **kwargs)

    def predict_on_batch(self, x):
        """Returns outputs as `keras.Model.predict_on_batch` does; see the class for texts."""
        x, _ = self._encoded(x)
        self._renew("predict_function", x)
        return super().predict_on_batch(x)

    def __call__(self, inputs, *args, **kwargs):
        is_second = bool(args) and is_text(args[0])
        check(not is_second, "two arguments are texts; pairs are one, model((firsts, seconds))")
        return super().__call__(self._encoded(inputs)[0], *args, **kwargs)

    def _renew(self, function: str, x) -> None:
        """Discards a compiled function of Keras whose latest inputs had another rank."""
        first = next(iter(keras.tree.flatten(getattr(x, "element_spec", x))), None)
        shape = getattr(first, "shape", None)
        rank = None if shape is None else len(shape)  # None: unknown to Keras, too
        ranks = self.__dict__.setdefault("_ranks", {})  # not tracked by Keras
        if ranks.setdefault(function, rank) != rank:
            setattr(self, function, None)
            ranks[function] = rank

    def _reader(self) -> "TextColumns":
        """Returns what reads the texts and labels of this kind of model."""
        from bert_keras.downstream.columns import TEXT_COLUMNS

        if self.tokenizer is None:
            raise InputError(
                f"this {type(self).__name__} has no tokenizer, so it cannot take texts; set "
                "model.preprocessor = Preprocessor(tokenizer, max_length=128), or give input_ids, "
                "input_mask and segment_ids"
            )
        return TEXT_COLUMNS[self.stored_as](self)

    def _rows(self, reader: "TextColumns", x, y=None, weights=None, *, numbers=None) -> Encoded:
        """Returns the rows of texts with their labels and weights, if there are any.

        Texts to learn have `numbers`, by which error messages name them.
        """
        columns, y, weights = columns_of(x), _listed(y), _listed(weights)
        num_texts = len(columns[0])
        check(num_texts, _EMPTY)
        for name, each in (("y", y), ("sample_weight", weights)):
            number = num_texts if each is None else len(each)
            found = f"{name} is of length {number:,}, the texts of {num_texts:,}"
            check(number == num_texts, f"{found}; expected one for each")
        is_labelled = y is not None or not reader.has_labels or (self.compiled and not self.loss)
        check(is_labelled, "y is None; expected the labels of the texts, as in fit(texts, labels)")
        metadata = reader.metadata
        if numbers is not None and len(metadata.text_columns) not in (0, len(columns)):
            self.metadata = dataclasses.replace(metadata, text_columns=())  # `fit` has others
        try:
            rows = reader.encoded(columns, y)
        except InputError as error:
            if (found := re.match(r"text \[(\d+)", str(error))) is None or numbers is None:
                raise
            text = f"text [{numbers[int(found[1])]}{str(error)[found.end() :]}"
            raise InputError(text) from error
        if weights is None:
            return rows
        if not isinstance(rows, EncodedTexts):
            raise InputError(f"{type(self).__name__} takes no sample_weight for texts")
        targets = np.zeros(num_texts) if rows.targets is None else rows.targets
        return dataclasses.replace(rows, targets=targets, weights=np.asarray(weights, np.float32))

    def _say_cut(self, parts: list[Encoded]) -> None:
        if self.preprocessor is not None:
            say_cut(*parts, max_length=self.preprocessor.max_length)

    def _encoded(self, x, y=None):
        """Returns the inputs of the model for texts and labels, or other data unchanged."""
        if hasattr(x, "element_spec"):
            return self._encoded_dataset(x), y
        if not is_text(x):
            first = x[0] if isinstance(x, list) and x else x
            if isinstance(first, dict):
                check_inputs(first, self.config)
            check(not isinstance(x, list) or x, _EMPTY)
            is_other = isinstance(x, (int, set, type(None), np.ndarray))
            check(not is_other, f"the texts are {quoted(x)}; expected a list of strings")
            expected = "expected a column, such as table['text'], or a tuple of two"
            check(not hasattr(x, "columns"), f"the texts are a {type(x).__name__}; {expected}")
            check(not isinstance(x, list), f"text [0] is {quoted(first)}; expected a string")
            return x, y
        reader = self._reader()
        return reader.preprocessor(x), None if y is None else reader.targets(_listed(y))

    def _encoded_dataset(self, dataset):
        spec = dataset.element_spec
        texts, labels, _ = keras.utils.unpack_x_y_sample_weight(spec)
        if not is_text(texts):
            if isinstance(texts, dict):
                check_inputs(texts, self.config)
            return dataset
        if labels is not None and is_text(labels):
            raise InputError(
                "the data set yields two texts; expected (text, number of its label), for pairs "
                "((text, text_pair), number), and without labels ((text, text_pair),)"
            )
        if any(column.shape.rank == 0 for column in keras.tree.flatten(texts)):
            raise InputError("the data set yields single texts; batch it: dataset.batch(32)")
        preprocessor = self._reader().preprocessor

        def encoded(*element):
            texts, labels, weights = keras.utils.unpack_x_y_sample_weight(element)
            return keras.utils.pack_x_y_sample_weight(preprocessor(texts), labels, weights)

        return dataset.map(encoded)


def _named(function: Any, *args, **kwargs) -> dict[str, Any]:
    """Returns the arguments of a call by their names."""
    ours: Any = getattr(function.__self__, function.__name__)
    known = inspect.signature(ours).parameters
    for name in kwargs:
        if not name.startswith("_"):  # Keras has such arguments
            check_argument(name, known, function=function.__name__)
    arguments = inspect.signature(function).bind(*args, **kwargs).arguments
    for name in {"epochs", "batch_size", "validation_batch_size"} & arguments.keys():
        check_count(name, arguments[name], least=0 if name == "epochs" else 1)
    kinds = (keras.callbacks.Callback, keras.callbacks.CallbackList)
    for each in keras.tree.flatten(arguments.get("callbacks") or []):
        found = f"callbacks has {each!r}; expected objects"
        check(isinstance(each, kinds), f"{found}, such as keras.callbacks.EarlyStopping()")
    others = arguments.pop("kwargs", {})
    return {**arguments, **others}


def _listed(values):
    """Returns labels or weights as a list or an array, which can be cut."""
    if values is None or isinstance(values, (list, tuple)):
        return None if values is None else [*values]
    array = np.asarray(values)
    check(array.ndim, f"{quoted(values)} is no list; expected a value for each text")
    return array


def _num_batches(x, size: int) -> int:
    """Returns the number of batches of arrays, or of a data set that knows it."""
    shape = getattr(keras.tree.flatten(x)[0], "shape", None)
    is_sized = shape is not None or hasattr(x, "__len__")
    check(is_sized, f"the data are a {type(x).__name__}; give steps_per_epoch, or a list of texts")
    return len(x) if shape is None else -(-shape[0] // size)


def _split(share: float, labels, *, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows to hold out, a share of each label, and the others."""
    names = [str(label) for label in labels] if labels is not None else [""] * num_rows
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    order = np.argsort([numbers[name] for name in names], kind="stable")
    ends = np.ceil(np.round(share * np.arange(num_rows + 1), 6))
    is_held_out = np.empty(num_rows, bool)
    is_held_out[order] = np.diff(ends) == 1
    return np.flatnonzero(is_held_out), np.flatnonzero(~is_held_out)


def _part(data, rows: np.ndarray):
    """Returns some rows of columns, of labels or of weights."""
    if isinstance(data, tuple):
        return tuple(_part(column, rows) for column in data)
    if isinstance(data, list):
        return [data[row] for row in rows]
    return None if data is None else data[rows]


def _training_batches(rows: Encoded, size: int, *, is_shuffled: bool) -> Batches:
    """Returns batches without end, of rows of similar length or in the given order."""
    if not is_shuffled:
        number = len(rows)
        ordered = np.split(np.arange(number), range(size, number, size))
        return batches_of(rows, lambda: itertools.cycle(ordered))
    seed = np.random.randint(2**31)  # keras.utils.set_random_seed makes it the same
    return batches_of(rows, lambda: rows.shuffled_batches(batch_size=size, seed=seed))


def _ordered_batches(rows: Encoded, size: int) -> Batches:
    batches = [np.sort(each) for each in longest_first_batches(rows.lengths, batch_size=size)]
    return batches_of(rows, lambda: batches, num_batches=len(batches))


for _method in (TextInputs.fit, TextInputs.evaluate, TextInputs.predict):  # for `help`
    _ours, _keras = (
        inspect.signature(each) for each in (_method, getattr(keras.Model, _method.__name__))
    )
    _added = [each for each in _ours.parameters.values() if each.kind is each.KEYWORD_ONLY]
    vars(_method)["__signature__"] = _keras.replace(
        parameters=[*_keras.parameters.values(), *_added]
    )

"""As in keras.Model: ordinary things with our models, and with the same ones of Keras' layers.

A row does one thing with models that it makes, and returns numbers. It runs with our models and
with those of Keras' layers, from equal weights, and the numbers must be equal.
"""

import functools
import itertools
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import layers, ops

from bert_keras import BertClassifier, BertEncoder, BertPretrainer
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.models.loading import load_model
from bert_keras.models.replaced_tokens import BertReplacedTokenPretrainer

IS_TENSORFLOW = keras.config.backend() == "tensorflow"
D, V, T, NUM_ROWS = 8, 30, 6, 12
CONFIG = BertConfig(
    vocab_size=V, hidden_size=D, num_layers=1, num_heads=2, max_positions=T,
    hidden_dropout_rate=0.0, attention_dropout_rate=0.0,
)  # fmt: skip
RANDOM = np.random.default_rng(0)
X = {
    "input_ids": RANDOM.integers(5, V, (NUM_ROWS, T)).astype("int32"),
    "input_mask": (np.arange(T) < RANDOM.integers(3, T + 1, (NUM_ROWS, 1))).astype("int32"),
    "segment_ids": RANDOM.integers(0, 2, (NUM_ROWS, T)).astype("int32"),
}
Y = RANDOM.integers(0, 2, NUM_ROWS).astype("int32")
WEIGHT = RANDOM.random(NUM_ROWS).astype("float32")
POSITIONS = RANDOM.integers(0, 3, (NUM_ROWS, 2)).astype("int32")
PREDICTED = RANDOM.integers(5, V, (NUM_ROWS, 2)).astype("int32")
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@keras.saving.register_keras_serializable("tests")
class Encoder(keras.Model):
    """BertEncoder of Keras' own layers, with the weights in the same order."""

    def __init__(self, **kwargs):
        super().__init__(**{"name": "encoder", **kwargs})
        self.token, self.position = layers.Embedding(V, D), layers.Embedding(T, D)
        self.segment = layers.Dense(D, use_bias=False)
        self.norm = layers.LayerNormalization(epsilon=1e-12)
        self.attention = layers.MultiHeadAttention(2, D // 2)
        self.attention_norm = layers.LayerNormalization(epsilon=1e-12)
        self.intermediate, self.output_dense = layers.Dense(4 * D, "gelu"), layers.Dense(D)
        self.feed_forward_norm = layers.LayerNormalization(epsilon=1e-12)
        self.pooler = layers.Dense(D, "tanh")

    def call(self, inputs, training=False):
        # Adam and RMSprop take repeated rows of sparse gradients one by one, of ours their sum.
        x = self.segment(ops.one_hot(inputs["segment_ids"], 2)) + self.token(inputs["input_ids"])
        x = self.norm(x + self.position(ops.arange(ops.shape(inputs["input_ids"])[1])))
        mask = ops.cast(inputs["input_mask"], "bool")[:, None]
        x = self.attention_norm(x + self.attention(x, x, attention_mask=mask))
        x = self.feed_forward_norm(x + self.output_dense(self.intermediate(x)))
        return {"sequence_output": x, "pooled_output": self.pooler(x[:, 0])}


@keras.saving.register_keras_serializable("tests")
class Classifier(keras.Model):
    """BertClassifier of Keras' own layers."""

    def __init__(self, num_labels=2, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.classification = Encoder(), layers.Dense(num_labels)

    def call(self, inputs, training=False):
        return self.classification(self.encoder(inputs, training=training)["pooled_output"])


class Pretrainer(keras.Model):
    """BertPretrainer of Keras' own layers."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.norm = Encoder(), layers.LayerNormalization(epsilon=1e-12)
        self.transform, self.next_sentence = layers.Dense(D, "gelu"), layers.Dense(2)
        self.output_bias = self.add_weight(shape=(V,), initializer="zeros")

    def call(self, inputs, training=False):
        outputs = self.encoder(inputs, training=training)
        at = ops.one_hot(inputs["masked_lm_positions"], T)
        states = self.norm(self.transform(ops.matmul(at, outputs["sequence_output"])))
        table = ops.transpose(self.encoder.token.embeddings)
        return {
            "masked_lm": ops.matmul(states, table) + self.output_bias,
            "next_sentence": self.next_sentence(outputs["pooled_output"]),
        }


@keras.saving.register_keras_serializable("tests")
class Headed(keras.Model):
    """A head of its own on an encoder."""

    def __init__(self, encoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.head = encoder, layers.Dense(2)

    def call(self, inputs, training=False):
        return self.head(self.encoder(inputs, training=training)["pooled_output"])

    def get_config(self):
        encoder = keras.saving.serialize_keras_object(self.encoder)
        return {**super().get_config(), "encoder": encoder}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config.pop("encoder")), **config)


def functional(encoder):
    inputs = {name: keras.Input((T,), name=name) for name in X}
    return keras.Model(inputs, layers.Dense(2)(encoder(inputs)["pooled_output"]))


CLASSES = {"encoder": (Encoder, BertEncoder), "classifier": (Classifier, BertClassifier)}
CLASSES["pretrainer"] = (Pretrainer, BertPretrainer)


def make(kind="classifier", mixin=None, *, is_ours, dtype="float32", num_labels=2):
    """Returns a model with the same weights for each kind of model."""
    if kind in ("functional", "subclassed"):
        encoder = make("encoder", is_ours=is_ours)
        return seeded(functional(encoder) if kind == "functional" else Headed(encoder))
    cls, keywords = CLASSES[kind][is_ours], {"num_labels": num_labels}
    cls = type("Mine", (mixin, cls), {}) if mixin else cls
    keras.config.set_dtype_policy(dtype)
    model = cls(*[CONFIG] * is_ours, **keywords if kind == "classifier" else {})
    keras.config.set_dtype_policy("float32")
    return seeded(model)


def weights_of(model):
    """Returns the weights in one order; Keras lists first those that belong to no layer."""
    weights = [each for each in model.weights if "seed_generator" not in each.path]
    return sorted(weights, key=lambda each: not each.path.endswith("output_bias"))


def arrays_of(model):
    return [ops.convert_to_numpy(each).reshape(-1) for each in weights_of(model)]


def seeded(model):
    model({**X, "masked_lm_positions": POSITIONS} if "retrainer" in model.name else X)
    random = np.random.default_rng(7)
    for weight in weights_of(model):
        if "moving" not in weight.path:
            values = random.normal(size=np.prod(weight.shape, dtype=int)) / 3
            weight.assign(values.reshape(weight.shape))
    return model


def compiled(model, **changes):
    options = {"optimizer": keras.optimizers.SGD(0.1), "loss": LOSS, "metrics": ["accuracy"]}
    model.compile(**{**options, "run_eagerly": True, **changes})
    return model


def fitted(model, *data, **changes):
    """Returns the logs of two epochs, or others, of three steps, and the weights after them."""
    options = {"batch_size": 4, "epochs": 2, "shuffle": False, "verbose": 0, **changes}
    history = model.fit(*data or (X, Y), **options)
    return [history.history, arrays_of(model)]


def trained(make, *data, kind="classifier", mixin=None, model=(), compiling=(), **fitting):
    return fitted(compiled(make(kind, mixin, **dict(model)), **dict(compiling)), *data, **fitting)


def squared(y_true, y_pred):
    return ops.mean(ops.square(y_pred - ops.cast(y_true, y_pred.dtype)), axis=-1)


def losses_and_metrics(make, folder):
    metrics = ["mae", squared, keras.metrics.BinaryAccuracy(threshold=0.0)]
    return [
        trained(make, model={"num_labels": 1}, compiling={"loss": each, "metrics": metrics})
        for each in ("binary_crossentropy", "mse", squared, keras.losses.Huber())
    ]


def optimizers(make, folder):
    rules = [
        *("adam", "rmsprop", keras.optimizers.Adam(1e-3, gradient_accumulation_steps=2)),
        *(keras.optimizers.SGD(0.1, **{name: 0.05}) for name in ("clipnorm", "clipvalue")),
        keras.optimizers.SGD(0.1, global_clipnorm=0.05),
    ]
    return [trained(make, compiling={"optimizer": rule}, epochs=1) for rule in rules]


def several_outputs(make, folder):
    x = {**X, "masked_lm_positions": POSITIONS}
    y = {"masked_lm": PREDICTED, "next_sentence": Y}
    options = {"metrics": {"next_sentence": ["accuracy"]}, "loss": dict.fromkeys(y, LOSS)}
    options["weighted_metrics"] = {"masked_lm": ["accuracy"]}
    options["loss_weights"] = {"masked_lm": 0.5, "next_sentence": 2.0}
    model = compiled(make("pretrainer"), **options)
    weights = {"masked_lm": np.stack([WEIGHT, 1 - WEIGHT], 1), "next_sentence": WEIGHT}
    logs = fitted(model, x, y, sample_weight=weights)
    return [logs, model.predict(x, verbose=0), model.evaluate(x, y, verbose=0, return_dict=True)]


class Sequence(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        rows = slice(4 * index, 4 * index + 4)
        return {name: array[rows] for name, array in X.items()}, Y[rows]


def kinds_of_data(make, folder):
    import tensorflow as tf

    endless = itertools.cycle([Sequence()[index] for index in range(3)])
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)
    kinds = Sequence(), (each for each in endless), dataset
    found = [trained(make, kind, batch_size=None, steps_per_epoch=3) for kind in kinds]
    listed = [X[name] for name in ("input_ids", "input_mask", "segment_ids")]
    return [*found, trained(make, listed, Y, kind="functional")]


def callbacks(make, folder):
    stop = keras.callbacks.EarlyStopping("val_loss", min_delta=9.0, restore_best_weights=True)
    stopped = trained(make, epochs=9, validation_data=(X, Y, WEIGHT), callbacks=[stop])
    log = keras.callbacks.CSVLogger(folder / "log.csv")
    plateau = keras.callbacks.ReduceLROnPlateau("loss", 0.5, patience=1, min_delta=9.0)
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    found = [trained(make, epochs=4, callbacks=[each, log]) for each in (plateau, schedule)]
    endless, end = {"optimizer": keras.optimizers.SGD(np.nan)}, keras.callbacks.TerminateOnNaN()
    found.append(trained(make, compiling=endless, callbacks=[end]))
    return [stopped, found, np.genfromtxt(folder / "log.csv", delimiter=",", skip_header=1)]


def checkpoints(make, folder):
    save = functools.partial(keras.callbacks.ModelCheckpoint, save_best_only=True)
    files = folder / "whole.keras", folder / "best.weights.h5"
    saving = [save(files[0]), save(files[1], save_weights_only=True)]
    logs = trained(make, validation_split=0.25, callbacks=saving)
    whole, weights = keras.models.load_model(files[0]), make()
    weights.load_weights(files[1])
    found = [whole.evaluate(X, Y, verbose=0), arrays_of(whole), arrays_of(weights)]
    return [logs, *found, fitted(whole)]


def backup(make, folder):
    class Stop(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            1 / (2 - epoch)

    state = functools.partial(keras.callbacks.BackupAndRestore, folder / "state")
    with pytest.raises(ZeroDivisionError):
        trained(make, epochs=3, callbacks=[state(), Stop()])
    return trained(make, epochs=3, callbacks=[state()])


def own_steps(make, folder):
    import tensorflow as tf

    class Step:
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
            weights = self.trainable_variables
            self.optimizer.apply(tape.gradient(loss, weights), weights)
            return {"half": loss / 2}

    model, rule = make(), keras.optimizers.Adam(1e-2)
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = LOSS(Y, model(X, training=True))
        rule.apply(tape.gradient(loss, model.trainable_weights), model.trainable_weights)
    return [trained(make, mixin=Step, compiling={"metrics": None}), arrays_of(model)]


def batches(make, folder):
    model = compiled(make())
    first = model.train_on_batch(X, Y, class_weight={0: 1.0, 1: 3.0}, return_dict=True)
    second = model.train_on_batch(X, Y, sample_weight=WEIGHT)
    return [first, second, model.test_on_batch(X, Y), model.predict_on_batch(X)]


def copies(make, folder):
    model, outer = make(), make("functional")
    rebuilt, clone = type(model).from_config(model.get_config()), keras.models.clone_model(outer)
    rebuilt(X)
    found = [len(model.get_weights()), model.count_params(), outer.count_params()]
    for old, new in ((model, rebuilt), (outer, clone)):
        new.set_weights(old.get_weights())
        found.append([fitted(compiled(new)), arrays_of(old)])
    return found


def again(make, folder):
    model = compiled(make())
    logs = [fitted(model), fitted(model)]
    compiled(model, optimizer="adam", metrics=None)
    return [*logs, fitted(model), model.evaluate(X, Y, verbose=0, return_dict=True)]


def frozen(make, folder):
    found = []
    for kind in ("classifier", "functional"):
        model = make(kind)
        encoder = model.get_layer("encoder")
        encoder.trainable = False
        found.append(len(model.trainable_weights))
        found += fitted(compiled(model), epochs=1) if kind == "classifier" else []
        # Keras' own functional models and layers stay frozen in a file, its subclassed models not.
        for part in (encoder, *encoder.layers[:2]) if isinstance(encoder, BertEncoder) else ():
            encoder.trainable, part.trainable = True, False
            model.save(folder / "frozen.keras")
            again = keras.models.load_model(folder / "frozen.keras")
            flags = [[each.trainable for each in one.weights] for one in (model, again)]
            assert flags[0] == flags[1] and not all(flags[0])
    return found


def lora(make, folder):
    model = make()
    if is_ours := isinstance(model, BertClassifier):
        inner = model.encoder.blocks[0].feed_forward
        denses = inner.intermediate_dense, inner.output_dense, model.classification.dense
    else:
        denses = model.encoder.intermediate, model.encoder.output_dense, model.classification
    for dense in denses:
        dense.enable_lora(2, a_initializer="ones", b_initializer=keras.initializers.Constant(0.1))
    logs = fitted(compiled(model))[0]
    model.save(folder / "lora.keras")
    found = [model, keras.models.load_model(folder / "lora.keras")]
    if is_ours:
        found.append(load_model(model.save_pretrained(folder / "merged")))
    outputs = [each.predict(X, verbose=0) for each in found]
    for each in outputs[1:]:
        np.testing.assert_allclose(each, outputs[0], rtol=1e-5, atol=1e-6)
    return [logs, outputs[0]]


class Extended:
    """A classifier with a regularizer, a loss and a state of its own."""

    def build(self, input_shape=None):
        self.extra = layers.Dense(2, kernel_regularizer="l2")
        self.average = layers.BatchNormalization(momentum=0.5)
        for layer in (self.extra, self.average):
            layer.build((None, 2))
        super().build(input_shape)

    def call(self, inputs, training=False):
        logits = self.extra(super().call(inputs, training=training))
        self.add_loss(0.1 * ops.mean(logits**2))
        return self.average(logits, training=training)


def layers_of_a_subclass(make, folder):
    model = compiled(make("classifier", Extended))
    logs = fitted(model, epochs=1)
    assert np.abs(ops.convert_to_numpy(model.average.moving_mean)).max() > 0
    return [logs, model.predict(X, verbose=0)]


def export(make, folder):
    import tensorflow as tf

    model = make("functional")
    model.export(folder / "saved", verbose=False)
    inputs = {name: tf.constant(array, tf.float32) for name, array in X.items()}
    loaded = tf.saved_model.load(folder / "saved")  # holds the variables
    return loaded.serve(inputs)


def mixed(make, folder):
    model = make(dtype="mixed_bfloat16")
    assert {each.dtype for each in weights_of(model)} == {"float32"}
    return fitted(compiled(model))[0]["loss"]


def stored(make, folder):
    """A whole model and its weights, in a process of its own; see IN_A_FRESH_PROCESS."""
    for kind in ("classifier", "functional", "subclassed"):
        model = make(kind)
        logs = fitted(compiled(model))
        model.save(folder / f"{kind}.keras")
        model.save_weights(folder / f"{kind}.weights.h5")
        np.save(folder / f"{kind}.npy", ops.convert_to_numpy(model(X)))
    is_ours = str(isinstance(model.encoder, BertEncoder))
    subprocess.run([sys.executable, "-c", IN_A_FRESH_PROCESS, folder, is_ours], check=True)
    return logs


IN_A_FRESH_PROCESS = """
import sys
from pathlib import Path
import keras
import numpy as np
from tests.models.test_as_in_keras import X, make

folder, is_ours = Path(sys.argv[1]), sys.argv[2] == "True"
for kind in ("classifier", "functional", "subclassed"):
    weights = make(kind, is_ours=is_ours)
    weights.load_weights(folder / f"{kind}.weights.h5")
    for model in (weights, keras.models.load_model(folder / f"{kind}.keras")):
        outputs, expected = keras.ops.convert_to_numpy(model(X)), np.load(folder / f"{kind}.npy")
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
"""

GRAPH = {"run_eagerly": False, "steps_per_execution": 2}
CHECKS = {
    "class_weight": lambda make, _: trained(make, class_weight={0: 1.0, 1: 3.0}, epochs=1),
    "sample_weight": lambda make, _: trained(make, sample_weight=WEIGHT),
    "validation_split": lambda make, _: trained(make, validation_split=0.25),
    "subclassed": lambda make, _: trained(make, kind="subclassed", compiling=GRAPH),
}
ROWS = (losses_and_metrics, optimizers, several_outputs, kinds_of_data, stored)
ROWS += (callbacks, checkpoints, backup, own_steps, batches, copies, again, frozen, lora)
ROWS += (layers_of_a_subclass, export, mixed)
CHECKS |= {each.__name__: each for each in ROWS}
FAST = ("class_weight", "frozen", "layers_of_a_subclass", "batches")
UNDER_JAX = ("class_weight", "validation_split", "losses_and_metrics", "frozen", "checkpoints")
UNDER_JAX += ("layers_of_a_subclass", "several_outputs", "stored")


@pytest.mark.parametrize(
    "name",
    [
        each if each in FAST else pytest.param(each, marks=pytest.mark.slow)
        for each in (CHECKS if IS_TENSORFLOW else UNDER_JAX)
    ],
)
def test_our_models_behave_as_those_of_keras(name, tmp_path):
    results = []
    for is_ours in (True, False):
        (tmp_path / str(is_ours)).mkdir()
        kind = functools.partial(make, is_ours=is_ours)
        results.append(keras.tree.flatten(CHECKS[name](kind, tmp_path / str(is_ours))))
    # Adam divides gradients by their size, also those of key biases, which are rounding alone.
    tolerances = {"mixed": 0.05, "optimizers": 1e-4, "own_steps": 1e-4, "again": 1e-4}
    tolerance = tolerances.get(name, 1e-5)
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.skipif(not IS_TENSORFLOW, reason="needs TensorFlow")
def test_what_keras_could_not_read_again_is_not_written(tmp_path):
    classifier, outer = make(is_ours=True), make("functional", is_ours=True)
    outer.quantize("int8")
    quantized = make(is_ours=True)
    quantized.quantize("int8")
    generator = BertReplacedTokenPretrainer(CONFIG, generator_size=0.5).generator
    for refused in (
        lambda: outer.save(tmp_path / "int8.keras"),
        lambda: quantized.save_pretrained(tmp_path / "int8"),
        lambda: generator.save(tmp_path / "generator.keras"),
        lambda: classifier.encoder([*X.values()]),
        lambda: classifier.encoder.predict(["a film"]),
    ):
        with pytest.raises(InputError):
            refused()
    assert not [*tmp_path.glob("generator.keras"), *tmp_path.glob("int8")]

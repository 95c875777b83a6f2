"""One battery for every model under plain Keras: compile, fit, predict, save, load."""

import dataclasses
import shutil
import zipfile

import h5py
import keras
import numpy as np
import pytest

import bert_keras as models
from bert_keras.checkpoints.tensors import named_weights
from bert_keras.config import BertConfig, DenseModule, EmbeddingConfig
from bert_keras.errors import InputError
from bert_keras.training.losses import pretraining_losses, pretraining_metrics
from bert_keras.training.optimizer import BertAdamW
from tests.tensorflow_or_skip import tf

CALM = BertConfig(
    vocab_size=40, hidden_size=16, num_layers=1, num_heads=2, max_positions=12,
    hidden_dropout_rate=0.0, attention_dropout_rate=0.0,
)  # fmt: skip
POOLER = {"encoder/pooler/kernel", "encoder/pooler/bias"}
MASKED_LM = {
    "masked_lm/transform/kernel": (16, 16),
    "masked_lm/transform/bias": (16,),
    "masked_lm/norm/gamma": (16,),
    "masked_lm/norm/beta": (16,),
    "masked_lm/output_bias": (40,),
}
SENTENCE = EmbeddingConfig(pooling=("cls", "max"), modules=(DenseModule(units=4),))
REPLACED = {"replaced_token/transform/kernel": (16, 16), "replaced_token/transform/bias": (16,)}


def dense(head: str, columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{head}/dense/kernel": (16, columns), f"{head}/dense/bias": (columns,)}


# Arguments of the model, and the weights of its heads.
CASES = {
    models.BertPretrainer: ({}, MASKED_LM | dense("next_sentence", 2)),
    models.BertMaskedLM: ({}, MASKED_LM),
    models.BertClassifier: ({"num_labels": 3}, dense("classification", 3)),
    models.BertTokenClassifier: ({"num_labels": 5}, dense("token_labels", 5)),
    models.BertQuestionAnswering: ({}, dense("span", 2)),
    models.BertDiscriminator: ({}, REPLACED | dense("replaced_token", 1)),
    models.BertMultipleChoice: ({}, dense("multiple_choice", 1)),
    models.BertSentenceEncoder: (
        {"embedding": SENTENCE},
        {"sentence/dense_0/kernel": (32, 4), "sentence/dense_0/bias": (4,)},
    ),
}


@pytest.fixture(params=CASES, ids=lambda cls: cls.__name__)
def cls(request):
    return request.param


def new_model(cls, config=CALM, **changes):
    keras.utils.set_random_seed(1)
    return cls(config, **{**CASES.get(cls, [{}])[0], **changes})


def inputs(cls, *, batch=8, length=10, choices=4):
    random = np.random.default_rng(0)
    shape = (batch, choices, length) if cls is models.BertMultipleChoice else (batch, length)
    x = {
        "input_ids": random.integers(5, 40, shape, dtype="int32"),
        "input_mask": np.ones(shape, "int32"),
        "segment_ids": random.integers(0, 2, shape, dtype="int32"),
    }
    x["input_mask"][0, ..., length // 2 :] = 0
    if cls in (models.BertPretrainer, models.BertMaskedLM):
        positions = np.tile(np.arange(length, dtype="int32"), (batch, 1))
        x["masked_lm_positions"] = random.permuted(positions, axis=1)[:, :3]
    return x


def named(values) -> dict:
    return values if isinstance(values, dict) else {"": values}


def test_weight_names_are_public(cls):
    weights = named_weights(new_model(cls, name="mine"))
    shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    heads = {name: shape for name, shape in shapes.items() if not name.startswith("encoder/")}
    assert heads == CASES[cls][1]
    assert len(weights) == 5 + 16 + 2 + len(heads)
    names = {"encoder/embeddings/token", "encoder/layer_0/attention/query/kernel", *POOLER}
    assert names < {*weights}
    frozen = {name for name, weight in weights.items() if not weight.trainable}
    assert frozen == (set() if cls.kind.reads_pooled_output else POOLER)


def test_a_file_of_keras_holds_the_whole_model(cls, tmp_path):
    rate = {"dropout_rate": 0.25} if hasattr(new_model(cls), "dropout_rate") else {}
    model = new_model(cls, dataclasses.replace(CALM, num_layers=2), name="mine", **rate)
    model.save(tmp_path / "it.keras")
    loaded = keras.models.load_model(tmp_path / "it.keras")
    assert loaded.get_config() == model.get_config()
    ours, theirs = (named(each(inputs(cls))) for each in (loaded, model))
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name])


@pytest.mark.parametrize("is_link", [False, True], ids=["storage", "link"])
def test_values_in_another_file_are_refused(tmp_path, is_link):
    """Keras before 3.15 follows links; see docs/explanation/advisories.md."""
    if is_link and keras.__version__ < "3.15":
        pytest.skip("needs Keras 3.15")
    model, name, whole = new_model(models.BertClassifier), "classification/dense/vars/0", "it.keras"
    model.save(tmp_path / whole)
    model.save_weights(other := str(tmp_path / "other.weights.h5"))
    path = shutil.copy(other, tmp_path / "it.weights.h5")
    with h5py.File(path, "a") as file:
        shape = file.pop(name).shape
        if is_link:
            file[name] = h5py.ExternalLink(other, name)
        else:
            file.create_dataset(name, shape, "f4", external=other)
    with pytest.warns(UserWarning), zipfile.ZipFile(tmp_path / whole, "a") as archive:
        archive.write(path, "model.weights.h5")
    for load, file in ((model.load_weights, path), (keras.models.load_model, tmp_path / whole)):
        with pytest.raises(ValueError, match="could not be loaded"):
            load(file)


def test_a_gradient_reaches_every_trainable_weight(cls):
    model = new_model(cls, dataclasses.replace(CALM, initializer_stddev=0.3))
    random = np.random.default_rng(2)
    with tf.GradientTape() as tape:
        outputs = named(model(inputs(cls), training=True))
        loss = sum(tf.reduce_sum(x * random.normal(size=x.shape)) for x in outputs.values())
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        assert gradient is not None, weight.path
        if not weight.path.endswith("key/bias"):  # it does not change a softmax
            assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, weight.path
    frozen = {weight.path.removeprefix(f"{model.name}/") for weight in model.non_trainable_weights}
    assert frozen == (set() if cls.kind.reads_pooled_output else POOLER)


def test_choices_are_scored_separately_in_any_number():
    model, x = new_model(models.BertMultipleChoice), inputs(models.BertMultipleChoice, choices=4)
    scores = np.asarray(model(x))
    graph = tf.function(lambda x: model(x), reduce_retracing=True)
    for choices in ([0], [2, 0], [0, 1, 2, 3]):
        part = {name: tf.constant(array[:, choices]) for name, array in x.items()}
        np.testing.assert_allclose(graph(part), scores[:, choices], atol=1e-6)
    with pytest.raises(InputError):
        model(inputs(models.BertClassifier))


def test_impossible_models_are_refused():
    with pytest.raises(InputError):
        new_model(models.BertClassifier, dataclasses.replace(CALM, has_pooler=False))
    with pytest.raises(InputError):
        new_model(models.BertPretrainer, dataclasses.replace(CALM, pooling="mean"))


def pretraining_examples(*, batch=8, length=10):
    weights = {
        "masked_lm": np.tile(np.array([1, 1, 0], "float32"), (batch, 1)),
        "next_sentence": np.ones(batch, "float32"),
    }
    x, random = inputs(models.BertPretrainer, batch=batch, length=length), np.random.default_rng(1)
    y = {"masked_lm": random.integers(0, 40, (batch, 3), dtype="int32")}
    y["next_sentence"] = random.integers(0, 2, batch, dtype="int32")
    x["input_mask"][:] = 1
    return x, y, weights


def pretraining_model(**options):
    model = new_model(models.BertPretrainer)
    losses, metrics = pretraining_losses(), pretraining_metrics()
    model.compile(BertAdamW(1e-3), loss=losses, weighted_metrics=metrics, **options)
    return model


def test_packed_rows_have_the_losses_of_separate_sequences():
    """Two sequences share each row, the last row holds one: losses and accuracies agree."""
    model = pretraining_model(run_eagerly=True)
    x, y, weights = pretraining_examples(batch=5, length=6)
    alone = model.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
    assert alone["masked_lm_loss"] == pytest.approx(np.log(40), rel=0.1)
    assert alone["next_sentence_loss"] == pytest.approx(np.log(2), rel=0.1)
    total = alone["masked_lm_loss"] + alone["next_sentence_loss"]
    assert alone["loss"] == pytest.approx(total, rel=1e-5)
    assert {"masked_lm_accuracy", "next_sentence_accuracy"} < {*alone}

    def shared(values, *, offsets=0):
        values = np.concatenate([values, np.zeros_like(values[:1])]).reshape(3, 2, -1)
        return (values + np.reshape(offsets, (-1, 1))).reshape(3, -1).astype(values.dtype)

    numbers = np.repeat([[1, 2], [1, 2], [1, 0]], 6, axis=1).astype("int32")
    real = (numbers > 0).astype("int32")
    packed = {
        "input_ids": shared(x["input_ids"]),
        "input_mask": real,
        "segment_ids": shared(x["segment_ids"]),
        "position_ids": np.tile(np.arange(6, dtype="int32"), (3, 2)) * real,
        "sequence_ids": numbers,
        "masked_lm_positions": shared(x["masked_lm_positions"], offsets=[0, 6]),
        "next_sentence_positions": np.array([[0, 6], [0, 6], [0, 0]], "int32"),
    }
    together = model.evaluate(
        packed,
        {name: shared(values) for name, values in y.items()},
        sample_weight={name: shared(values) for name, values in weights.items()},
        batch_size=3,
        verbose=0,
        return_dict=True,
    )
    assert together == pytest.approx(alone, rel=1e-5)
    assert model(packed)["next_sentence"].shape == (3, 2, 2)


@pytest.mark.slow
def test_a_compiled_model_that_keras_loads_continues_its_training(tmp_path):
    x, y, weights = pretraining_examples()
    model = pretraining_model(gradient_accumulation_steps=2)
    model.train_on_batch(x, y, sample_weight=weights)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert again.gradient_accumulation_steps == 2
    options = {"sample_weight": weights, "verbose": 0, "return_dict": True}
    logs = [each.evaluate(x, y, **options) for each in (model, again)]
    assert logs[0] == pytest.approx(logs[1]) and "masked_lm_accuracy" in logs[1]
    for ours, theirs in zip(model.optimizer.variables, again.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    again.train_on_batch(x, y, sample_weight=weights)
    assert int(again.optimizer.iterations) == 2


def test_the_pooling_of_windows_of_0_2_is_ignored_or_refused():
    model = new_model(models.BertClassifier)
    config = {**model.get_config(), "window_pooling": "mean"}
    assert models.BertClassifier.from_config(config).get_config() == model.get_config()
    metadata = dataclasses.replace(model.new_metadata(), task={"long_texts": "mean"})
    with pytest.raises(InputError):
        models.BertClassifier.from_metadata(metadata)


def test_lora_trains_updates_and_the_head_and_is_saved_in_the_kernels(tmp_path):
    keras.utils.set_random_seed(1)
    model = models.BertClassifier(CALM, num_labels=2)
    num_weights = len(model.weights)
    model.enable_lora(2)
    before = {weight.path: np.array(weight.numpy()) for weight in model.weights}  # copies
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    inputs = {"input_ids": np.array([[2, 7, 3], [2, 8, 3]])}
    model.fit(inputs, np.array([0, 1]), epochs=4, verbose=0)
    changed = {w.path for w in model.weights if not np.array_equal(w.numpy(), before[w.path])}
    assert sum("lora_kernel" in path for path in changed) == 4  # two of query and value
    others = {path for path in changed if "lora_kernel" not in path}
    assert others and all("pooler" in path or "encoder" not in path for path in others)
    loaded = models.BertClassifier.from_pretrained(model.save_pretrained(tmp_path / "model"))
    np.testing.assert_allclose(loaded(inputs), model(inputs), rtol=1e-5, atol=1e-6)
    assert len(loaded.weights) == num_weights

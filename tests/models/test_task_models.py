"""One battery for every task model under plain Keras: compile, fit, predict, save, load."""

import dataclasses
import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig, DenseModule, EmbeddingConfig
from bert_keras.errors import InputError
from bert_keras.models import (
    BertClassifier,
    BertDiscriminator,
    BertEncoder,
    BertMaskedLM,
    BertMultipleChoice,
    BertPretrainer,
    BertQuestionAnswering,
    BertSentenceEncoder,
    BertTokenClassifier,
)
from bert_keras.models.pretrained import named_weights
from bert_keras.training.losses import pretraining_losses
from bert_keras.training.optimizer import BertAdamW

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


def dense(head: str, columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{head}/dense/kernel": (16, columns), f"{head}/dense/bias": (columns,)}


# The model, what it is made with, its heads' weights, the shape of its labels, how many labels.
CASES = {
    BertPretrainer: (
        {},
        MASKED_LM | dense("next_sentence", 2),
        lambda b, t: {"masked_lm": (b, 3), "next_sentence": (b,)},
        {"masked_lm": 40, "next_sentence": 2},
    ),
    BertMaskedLM: ({}, MASKED_LM, lambda b, t: {"masked_lm": (b, 3)}, {"masked_lm": 40}),
    BertClassifier: (
        {"num_labels": 3},
        dense("classification", 3),
        lambda b, t: {"": (b,)},
        {"": 3},
    ),
    BertTokenClassifier: (
        {"num_labels": 5},
        dense("token_labels", 5),
        lambda b, t: {"": (b, t)},
        {"": 5},
    ),
    BertQuestionAnswering: (
        {},
        dense("span", 2),
        lambda b, t: {"start": (b,), "end": (b,)},
        {"start": None, "end": None},  # as many as there are tokens
    ),
    BertDiscriminator: (
        {},
        {
            "replaced_token/transform/kernel": (16, 16),
            "replaced_token/transform/bias": (16,),
            **dense("replaced_token", 1),
        },
        lambda b, t: {"replaced_token": (b,)},  # the place of the token that was replaced
        {"replaced_token": None},
    ),
    BertMultipleChoice: ({}, dense("multiple_choice", 1), lambda b, t: {"": (b,)}, {"": 4}),
    BertSentenceEncoder: (
        {"embedding": EmbeddingConfig(pooling=("cls", "max"), modules=(DenseModule(units=4),))},
        {"sentence/dense_0/kernel": (32, 4), "sentence/dense_0/bias": (4,)},
        lambda b, t: {"": (b,)},
        {"": 4},
    ),
}


@pytest.fixture(params=CASES, ids=lambda cls: cls.__name__)
def cls(request):
    return request.param


# For what takes seconds: two models, of which the others are slow tests.
two_models = pytest.mark.parametrize(
    "cls",
    [
        each
        if each in (BertPretrainer, BertMultipleChoice)
        else pytest.param(each, marks=pytest.mark.slow)
        for each in CASES
    ],
    ids=lambda cls: cls.__name__,
)


@pytest.fixture(params=["mixed_bfloat16", "mixed_float16"])
def policy(request):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


def new_model(cls, config=CALM, **changes):
    keras.utils.set_random_seed(1)
    return cls(config, **{**CASES.get(cls, [{}])[0], **changes})


def inputs(cls, *, batch=8, length=10, choices=4):
    random = np.random.default_rng(0)
    shape = (batch, choices, length) if cls is BertMultipleChoice else (batch, length)
    x = {
        "input_ids": random.integers(5, 40, shape, dtype="int32"),
        "input_mask": np.ones(shape, "int32"),
        "segment_ids": random.integers(0, 2, shape, dtype="int32"),
    }
    x["input_mask"][0, ..., length // 2 :] = 0
    if cls in (BertPretrainer, BertMaskedLM):
        positions = np.tile(np.arange(length, dtype="int32"), (batch, 1))
        x["masked_lm_positions"] = random.permuted(positions, axis=1)[:, :3]
    return x


def labels(cls, *, batch=8, length=10):
    _, _, shapes, counts = CASES[cls]
    random = np.random.default_rng(1)
    y = {
        name: random.integers(0, counts[name] or length, shape, dtype="int32")
        for name, shape in shapes(batch, length).items()
    }
    return y.get("", y)


def losses(cls):
    if cls in (BertPretrainer, BertMaskedLM):
        return pretraining_losses(list(CASES[cls][3]))
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def arrays(outputs):
    return {
        name: keras.ops.convert_to_numpy(array)
        for name, array in (outputs if isinstance(outputs, dict) else {"": outputs}).items()
    }


def assert_equal(ours, theirs):
    ours, theirs = arrays(ours), arrays(theirs)
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])


def test_weight_names_are_public(cls):
    weights = named_weights(new_model(cls, name="mine"))
    assert len(weights) == 5 + 16 + 2 + len(CASES[cls][1])
    heads = {
        name: tuple(weight.shape)
        for name, weight in weights.items()
        if not name.startswith("encoder/")
    }
    assert heads == CASES[cls][1]


def test_config_rebuilds_the_model(cls):
    rate = {"dropout_rate": 0.25} if hasattr(new_model(cls), "dropout_rate") else {}
    model = new_model(cls, dataclasses.replace(CALM, num_layers=2), name="mine", **rate)
    rebuilt = cls.from_config(json.loads(json.dumps(model.get_config())))
    assert rebuilt.get_config() == model.get_config()
    rebuilt.set_weights(model.get_weights())
    assert_equal(model(inputs(cls)), rebuilt(inputs(cls)))


@two_models
def test_any_batch_and_length_in_one_graph(cls):
    model = new_model(cls)
    graph = tf.function(lambda x: model(x), reduce_retracing=True)
    for sizes in ({"batch": 1, "length": 3}, {"batch": 5, "length": 7}, {"length": 12}):
        x = inputs(cls, **sizes)
        outputs = arrays(graph({name: tf.constant(array) for name, array in x.items()}))
        eager = arrays(model(x))
        assert outputs.keys() == set(CASES[cls][3])
        for name, array in outputs.items():
            assert array.shape == eager[name].shape
            np.testing.assert_allclose(array, eager[name], atol=1e-5)
    again = arrays(model.predict(x, batch_size=3, verbose=0))  # 3, 3 and 2 rows
    for name, array in again.items():
        np.testing.assert_allclose(array, eager[name], atol=1e-5)


def test_a_gradient_reaches_every_trainable_weight(cls):
    model = new_model(cls, dataclasses.replace(CALM, initializer_stddev=0.3))
    random = np.random.default_rng(2)
    with tf.GradientTape() as tape:
        outputs = model(inputs(cls), training=True)
        outputs = outputs if isinstance(outputs, dict) else {"": outputs}
        loss = sum(tf.reduce_sum(x * random.normal(size=x.shape)) for x in outputs.values())
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        assert gradient is not None, weight.path
        if not weight.path.endswith("key/bias"):  # softmax does not see it
            assert np.abs(tf.convert_to_tensor(gradient)).max() > 0, weight.path
    frozen = {weight.path.removeprefix(f"{model.name}/") for weight in model.non_trainable_weights}
    assert frozen == (set() if cls.reads_pooled_output else POOLER)


def learn(model, x, y, *, steps: int, epochs: int = 1) -> list[float]:
    """The mean loss of each epoch of so many steps on one batch."""
    model.compile(optimizer=BertAdamW(2e-3), loss=losses(type(model)))
    batches = tf.data.Dataset.from_tensors((x, y)).repeat(steps)
    return model.fit(batches, epochs=epochs, shuffle=False, verbose=0).history["loss"]


@two_models
def test_a_model_overfits_one_batch(cls):
    model, x, y = new_model(cls), inputs(cls), labels(cls)
    pooler = model.encoder.pooler.get_weights()
    learn(model, x, y, steps=100)
    answers = {name: array.argmax(-1) for name, array in arrays(model(x)).items()}
    assert_equal(answers, y)
    moved = [
        (a != b).any() for a, b in zip(pooler, model.encoder.pooler.get_weights(), strict=True)
    ]
    assert moved == [cls.reads_pooled_output] * 2


@pytest.mark.parametrize("cls", [each for each in CASES if not each.reads_pooled_output])
def test_an_unread_pooler_can_be_omitted(cls):
    weights = named_weights(new_model(cls))
    bare = new_model(cls, dataclasses.replace(CALM, has_pooler=False))
    for name, weight in named_weights(bare).items():
        weight.assign(weights.pop(name))
    assert set(weights) == POOLER
    assert_equal(new_model(cls)(inputs(cls)), bare(inputs(cls)))


def test_logits_are_float32_under_mixed_policies(cls, policy):
    model = new_model(cls)
    assert model.encoder.compute_dtype == policy.removeprefix("mixed_")
    assert {weight.dtype for weight in model.weights} == {"float32"}
    for name, array in arrays(model(inputs(cls))).items():
        assert array.dtype == "float32", name


@pytest.mark.parametrize(
    ("policy", "cls"),
    [
        pytest.param("mixed_bfloat16", BertQuestionAnswering, marks=pytest.mark.slow),
        ("mixed_float16", BertPretrainer),
    ],
    indirect=["policy"],
)
def test_mixed_policies_learn(policy, cls):
    model, x, y = new_model(cls), inputs(cls), labels(cls)
    first, later = learn(model, x, y, steps=10, epochs=2)
    assert later < 0.9 * first


@pytest.mark.slow
def test_saved_models_load_in_a_fresh_process_without_custom_objects(tmp_path):
    models = {each.__name__: new_model(each) for each in (*CASES, BertEncoder)}
    expected = {}
    for name, model in models.items():
        x = inputs(type(model))
        expected[name] = arrays(model(x))
        model.save(tmp_path / f"{name}.keras")
        np.savez(tmp_path / f"{name}.x.npz", **x)
    code = (
        "import sys, numpy as np, keras, bert_keras.models\n"
        "for path in sys.argv[1:]:\n"
        "    outputs = keras.models.load_model(path + '.keras')(dict(np.load(path + '.x.npz')))\n"
        "    outputs = outputs if isinstance(outputs, dict) else {'': outputs}\n"
        "    np.savez(path + '.npz', **{f'_{name}': x for name, x in outputs.items()})\n"
    )
    paths = [tmp_path / name for name in models]
    subprocess.run([sys.executable, "-c", code, *paths], check=True, capture_output=True)
    for name, outputs in expected.items():
        again = np.load(tmp_path / f"{name}.npz")
        assert_equal({f"_{output}": array for output, array in outputs.items()}, dict(again))


def test_choices_are_scored_separately_in_any_number():
    model = new_model(BertMultipleChoice)
    x = inputs(BertMultipleChoice, choices=4)
    scores = np.asarray(model(x))
    assert scores.shape == (8, 4)
    order = [2, 0]
    some = model({name: array[:, order] for name, array in x.items()})
    np.testing.assert_allclose(some, scores[:, order], atol=1e-6)
    graph = tf.function(lambda x: model(x), reduce_retracing=True)
    for choices in (1, 2, 4):
        part = {name: tf.constant(array[:, :choices]) for name, array in x.items()}
        np.testing.assert_allclose(graph(part), scores[:, :choices], atol=1e-6)


def test_choices_without_their_dimension_are_refused():
    with pytest.raises(InputError, match=r"shape \(8, 10\); expected three dimensions: examples"):
        new_model(BertMultipleChoice)(inputs(BertClassifier))


def test_heads_have_the_dropout_of_the_encoder_by_default():
    config = dataclasses.replace(CALM, hidden_dropout_rate=0.3)
    for cls in (BertClassifier, BertTokenClassifier, BertMultipleChoice):
        assert new_model(cls, config).dropout_rate == 0.3
        assert new_model(cls, config, dropout_rate=0.0).dropout_rate == 0.0


def test_a_model_keeps_its_dtype_policy():
    model = BertPretrainer(CALM, dtype="mixed_bfloat16")
    again = type(model).from_config(model.get_config())
    for each in (model, again):
        block = each.encoder.blocks[0]
        assert {block.compute_dtype, each.masked_lm.compute_dtype} == {"bfloat16"}
        assert {weight.dtype for weight in each.weights} == {"float32"}


def test_a_model_that_reads_the_pooled_output_needs_a_pooler():
    with pytest.raises(
        InputError, match=r"has_pooler is False; expected True, because BertClassifier"
    ):
        BertClassifier(dataclasses.replace(CALM, has_pooler=False), num_labels=2)

"""Forward and backward against the reference implementation in PyTorch, with the same weights."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.config import BertConfig
from bert_keras.encoder.pretrained import named_weights
from bert_keras.models import BertPretrainer
from bert_keras.training.losses import MaskedLMLoss

torch = pytest.importorskip("torch", reason='needs PyTorch: pip install "bert-keras[parity]"')
transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
pytestmark = pytest.mark.extra

CONFIG = BertConfig(
    vocab_size=500, hidden_size=128, num_layers=3, num_heads=4, max_positions=64,
    hidden_dropout_rate=0.0, attention_dropout_rate=0.0,
)  # fmt: skip
BLOCK = {
    "attention/query": "attention.self.query",
    "attention/key": "attention.self.key",
    "attention/value": "attention.self.value",
    "attention/output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward/intermediate": "intermediate.dense",
    "feed_forward/output": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
LAYERS = {
    "encoder/embeddings/norm": "bert.embeddings.LayerNorm",
    "encoder/pooler": "bert.pooler.dense",
    "masked_lm/transform": "cls.predictions.transform.dense",
    "masked_lm/norm": "cls.predictions.transform.LayerNorm",
    "next_sentence/dense": "cls.seq_relationship",
    **{
        f"encoder/layer_{index}/{ours}": f"bert.encoder.layer.{index}.{theirs}"
        for index in range(CONFIG.num_layers)
        for ours, theirs in BLOCK.items()
    },
}
TABLES = {
    "encoder/embeddings/token": "bert.embeddings.word_embeddings.weight",
    "encoder/embeddings/position": "bert.embeddings.position_embeddings.weight",
    "encoder/embeddings/segment": "bert.embeddings.token_type_embeddings.weight",
    "masked_lm/output_bias": "cls.predictions.bias",
}
KINDS = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


def their_name(ours: str) -> str:
    if ours in TABLES:
        return TABLES[ours]
    layer, kind = ours.rsplit("/", 1)
    return f"{LAYERS[layer]}.{KINDS[kind]}"


def their_array(ours: str, tensor) -> np.ndarray:
    array = tensor.detach().numpy()
    return array.T if ours.endswith("/kernel") else array


@pytest.fixture(scope="module")
def models():
    torch.manual_seed(0)
    reference = transformers.BertForPreTraining(
        transformers.BertConfig(
            vocab_size=CONFIG.vocab_size,
            hidden_size=CONFIG.hidden_size,
            num_hidden_layers=CONFIG.num_layers,
            num_attention_heads=CONFIG.num_heads,
            intermediate_size=CONFIG.intermediate_size,
            max_position_embeddings=CONFIG.max_positions,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            attn_implementation="eager",
        )
    )
    with torch.no_grad():  # biases, gamma and beta must count as well
        for parameter in reference.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    ours = BertPretrainer(CONFIG)
    parameters = dict(reference.named_parameters())
    for name, weight in named_weights(ours).items():
        weight.assign(their_array(name, parameters[their_name(name)]))
    assert len(parameters) == len(named_weights(ours))
    return ours, reference


@pytest.fixture(scope="module")
def batch():
    random = np.random.default_rng(1)
    real = np.array([64, 17, 40, 2])
    mask = (np.arange(64) < real[:, None]).astype("int32")
    positions = np.stack([random.permutation(2)[:1].repeat(6) for _ in real]).astype("int32")
    positions[:3] = [np.sort(random.choice(n, 6, replace=False)) for n in real[:3]]
    return {
        "input_ids": random.integers(0, 500, mask.shape, dtype="int32"),
        "input_mask": mask,
        "segment_ids": random.integers(0, 2, mask.shape, dtype="int32"),
        "masked_lm_positions": positions,
    }


def run_reference(reference, batch):
    return reference(
        input_ids=torch.tensor(batch["input_ids"]).long(),
        attention_mask=torch.tensor(batch["input_mask"]).long(),
        token_type_ids=torch.tensor(batch["segment_ids"]).long(),
        output_hidden_states=True,
        output_attentions=True,
    )


def assert_close(ours, theirs, *, tolerance: float) -> None:
    ours, theirs = np.asarray(ours), theirs.detach().numpy()
    assert np.abs(ours - theirs).max() <= tolerance * np.abs(theirs).max()


def test_forward(models, batch):
    ours, reference = models
    outputs, states = ours(batch), ours.encoder.states(batch)
    theirs = run_reference(reference, batch)
    for mine, other in zip(states.hidden_states, theirs.hidden_states, strict=True):
        assert_close(mine, other, tolerance=1e-5)
    for mine, other in zip(states.attentions, theirs.attentions, strict=True):
        assert_close(mine, other, tolerance=1e-5)
    assert_close(outputs["next_sentence"], theirs.seq_relationship_logits, tolerance=1e-5)
    rows = np.arange(4)[:, None]
    masked = theirs.prediction_logits[rows, batch["masked_lm_positions"]]
    assert_close(outputs["masked_lm"], masked, tolerance=1e-5)


def test_gradients_of_the_pretraining_loss(models, batch):
    ours, reference = models
    random = np.random.default_rng(2)
    answers = random.integers(0, 500, (4, 6))
    weights = np.array([[1] * 6, [1] * 4 + [0] * 2, [1] * 6, [1] + [0] * 5], "float32")
    labels = np.array([0, 1, 1, 0])

    with tf.GradientTape() as tape:
        outputs = ours(batch)
        nsp = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs["next_sentence"])
        loss = MaskedLMLoss()(answers, outputs["masked_lm"], weights) + tf.reduce_mean(nsp)
    variables = named_weights(ours)
    gradients = tape.gradient(loss, [v.value for v in variables.values()])

    theirs = run_reference(reference, batch)
    masked = theirs.prediction_logits[np.arange(4)[:, None], batch["masked_lm_positions"]]
    cross_entropy = torch.nn.functional.cross_entropy
    nll = cross_entropy(masked.flatten(0, 1), torch.tensor(answers).flatten(), reduction="none")
    nll = (nll * torch.tensor(weights).flatten()).sum() / (weights.sum() + 1e-5)
    their_loss = nll + cross_entropy(theirs.seq_relationship_logits, torch.tensor(labels))
    reference.zero_grad()
    their_loss.backward()
    assert float(loss) == pytest.approx(their_loss.item(), rel=1e-5)

    parameters = dict(reference.named_parameters())
    for name, gradient in zip(variables, gradients, strict=True):
        mine = tf.convert_to_tensor(gradient).numpy()
        other = their_array(name, parameters[their_name(name)].grad)
        largest = max(np.abs(other).max(), 1e-4)  # the keys' biases have no gradient but noise
        assert np.abs(mine - other).max() <= 1e-4 * largest, name

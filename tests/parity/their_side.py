"""Outputs and gradients of Hugging Face's BERT and relatives in PyTorch, as in `our_side`."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import transformers
from safetensors.torch import load_file

from bert_keras.checkpoints.checkpoint import our_tensors
from bert_keras.checkpoints.huggingface.config import transformers_classes, write_config
from bert_keras.checkpoints.huggingface.folder import SAFETENSORS, is_transposed, weight_names
from bert_keras.checkpoints.tensors import StoredTensor
from bert_keras.config import BertConfig, ModelMetadata, numbered_labels
from bert_keras.families import FAMILIES, family_of
from bert_keras.text.vocab import Vocabulary

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

# Names of the outputs of a class of transformers, by the end of its name, and ours.
OUTPUTS: dict[str, dict[str, str]] = {
    "Model": {"pooler_output": "pooled_output"},
    "ForPreTraining": {
        "prediction_logits": "masked_lm",
        "seq_relationship_logits": "next_sentence",
        "sop_logits": "next_sentence",  # of ALBERT
        "logits": "replaced_token",  # of ELECTRA, whose class is our BertDiscriminator
    },
    "ForMaskedLM": {"logits": "masked_lm"},
    "ForSequenceClassification": {"logits": "classification"},
    "ForTokenClassification": {"logits": "token_labels"},
    "ForQuestionAnswering": {"qa_outputs": "span"},
    "ForMultipleChoice": {"logits": "multiple_choice"},
}
NUM_LABELS = {"BertClassifier": 3, "BertTokenClassifier": 5}


def random_reference(
    model: str, config: BertConfig, *, seed: int = 0, vocabulary: Vocabulary | None = None
) -> torch.nn.Module:
    """Returns a model of transformers with random weights, biases, gamma and beta included."""
    torch.manual_seed(seed)
    metadata = ModelMetadata(
        model=model,
        config=config,
        lowercase=True,
        max_length=config.max_positions,
        labels=numbered_labels(NUM_LABELS.get(model, 0)),
    )
    family = family_of(config, vocabulary)
    with TemporaryDirectory() as folder:
        write_config(metadata, Path(folder), family=family, vocabulary=vocabulary)
        theirs = transformers.AutoConfig.from_pretrained(folder, attn_implementation="eager")
    reference = getattr(transformers, transformers_classes(family)[model])(theirs)
    perturb(reference.parameters(), config.initializer_stddev)
    return reference.eval()


def real_reference(model: str, folder: Path, *, seed: int = 0) -> torch.nn.Module:
    """Returns the encoder in a folder of Hugging Face with random heads."""
    torch.manual_seed(seed)
    labels = {"num_labels": NUM_LABELS[model]} if model in NUM_LABELS else {}
    name = transformers_classes(FAMILIES["bert"])[model]
    reference = getattr(transformers, name).from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32, **labels
    )
    if model != "BertEncoder":
        heads = (p for name, p in reference.named_parameters() if not name.startswith("bert."))
        perturb(heads, reference.config.initializer_range)
    return reference.eval()


def perturb(parameters, stddev: float) -> None:
    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(stddev * torch.randn_like(parameter))


def outputs(reference: torch.nn.Module, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with torch.no_grad():
        expected = reference(
            **_tensors(batch, reference.config.model_type),
            output_hidden_states=True,
            output_attentions=True,
        )
    if "start_logits" in expected:
        expected["qa_outputs"] = torch.stack([expected.start_logits, expected.end_logits], dim=-1)
    prefix = FAMILIES[reference.config.model_type].class_prefix
    names = OUTPUTS[type(reference).__name__.removeprefix(prefix)]
    actual = {
        ours: expected[theirs].numpy() for theirs, ours in names.items() if theirs in expected
    }
    if batch["input_ids"].ndim == 2:
        for kind in ("hidden_states", "attentions"):
            actual |= {f"{kind}/{index}": each.numpy() for index, each in enumerate(expected[kind])}
    return actual


def neobert_outputs(folder: Path, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the outputs of NeoBERT's classifier, whose code is not a part of transformers.

    Written from the paper and from github.com/chandar-lab/NeoBERT.
    """
    values = json.loads((folder / "config.json").read_text("utf-8"))
    weights = {
        name.removeprefix("model."): w for name, w in load_file(folder / SAFETENSORS).items()
    }
    heads, size = values["num_attention_heads"], values["hidden_size"]
    ids, mask = _tensors(batch, "neobert").values()
    frequencies = 1 / 10_000 ** (torch.arange(0, size // heads, 2) / (size // heads))
    angles = torch.outer(torch.arange(ids.shape[1]), frequencies)

    def dense(x, name):
        return torch.nn.functional.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    def norm(x, name):
        gamma, epsilon = weights[f"{name}.weight"], values["norm_eps"]
        return x * gamma / (x.square().mean(-1, keepdim=True) + epsilon).sqrt()

    def rotated(x):  # adjacent values are the real and the imaginary part of a number
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        turned = pairs * torch.polar(torch.ones_like(angles), angles)[:, None]
        return torch.view_as_real(turned).flatten(-2)

    hidden = weights["encoder.weight"][ids]
    states = [hidden]
    for index in range(values["num_hidden_layers"]):
        block = f"transformer_encoder.{index}."
        qkv = dense(norm(hidden, f"{block}attention_norm"), f"{block}qkv")
        query, key, value = qkv.unflatten(-1, (heads, -1)).chunk(3, dim=-1)
        scores = torch.einsum("bqnh,bknh->bnqk", rotated(query), rotated(key))
        scores = scores / (size // heads) ** 0.5 + torch.log(mask)[:, None, None]
        context = torch.einsum("bnqk,bknh->bqnh", scores.softmax(-1), value).flatten(2)
        hidden = hidden + dense(context, f"{block}wo")
        gate, up = dense(norm(hidden, f"{block}ffn_norm"), f"{block}ffn.w12").chunk(2, dim=-1)
        hidden = hidden + dense(torch.nn.functional.silu(gate) * up, f"{block}ffn.w3")
        states.append(hidden)
    states[-1] = norm(hidden, "layer_norm")
    logits = dense(dense(states[-1][:, 0], "dense").tanh(), "classifier")
    named = {f"hidden_states/{index}": each for index, each in enumerate(states)}
    return {name: each.numpy() for name, each in (named | {"classification": logits}).items()}


def loss_and_gradients(
    reference: torch.nn.Module, batch: dict[str, np.ndarray], *, metadata: ModelMetadata
) -> tuple[float, dict[str, np.ndarray]]:
    """Returns the sum of the two losses in the original run_pretraining.py, or the first loss if
    the model has only the first head, and the gradients by our names."""
    expected = reference(**_tensors(batch, reference.config.model_type))
    rows = np.arange(len(batch["input_ids"]))[:, None]
    logits = expected["prediction_logits" if "prediction_logits" in expected else "logits"]
    masked = logits[rows, batch["masked_lm_positions"]]
    cross_entropy = torch.nn.functional.cross_entropy
    answers = torch.tensor(batch["masked_lm_ids"]).long().flatten()
    weights = torch.tensor(batch["masked_lm_weights"]).flatten().to(masked.dtype)
    each = cross_entropy(masked.flatten(0, 1), answers, reduction="none")
    labels = torch.tensor(batch["next_sentence_labels"]).long().flatten()
    loss = (each * weights).sum() / (weights.sum() + 1e-5)
    for name in ("seq_relationship_logits", "sop_logits"):
        if name in expected:
            loss = loss + cross_entropy(expected[name], labels)
    return loss.item(), _gradients(reference, loss, metadata=metadata)


def discriminator_gradients(
    reference: torch.nn.Module,
    batch: dict[str, np.ndarray],
    is_replaced: np.ndarray,
    *,
    metadata: ModelMetadata,
) -> tuple[float, dict[str, np.ndarray]]:
    """Returns the reference's own loss and its gradients by our names."""
    inputs = _tensors(batch, reference.config.model_type)
    loss = reference(**inputs, labels=torch.tensor(is_replaced)).loss
    return loss.item(), _gradients(reference, loss, metadata=metadata)


def _gradients(reference, loss, *, metadata: ModelMetadata) -> dict[str, np.ndarray]:
    reference.zero_grad()
    loss.backward()
    before = f"{reference.base_model_prefix}."
    # The first name of XLM-RoBERTa's tied table is its name in the head.
    table = reference.get_input_embeddings().weight
    named = {
        "embeddings.word_embeddings.weight"
        if p is table and name.startswith("lm_head.")
        else name.removeprefix(before): StoredTensor(p.shape, p.grad.float().numpy)
        for name, p in reference.named_parameters()
    }
    config = metadata.config
    names = weight_names(family_of(config), metadata.model, config)
    gradients = our_tensors(named, names, is_transposed=is_transposed)
    return {name: gradient.read() for name, gradient in gradients.items()}


def _tensors(batch: dict[str, np.ndarray], model_type: str) -> dict[str, torch.Tensor]:
    names = {"input_ids": "input_ids", "input_mask": "attention_mask"}
    if model_type not in ("distilbert", "modernbert", "neobert"):
        names["segment_ids"] = "token_type_ids"
    return {theirs: torch.tensor(batch[ours]).long() for ours, theirs in names.items()}

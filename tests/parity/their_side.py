"""Outputs and gradients of Hugging Face's BERT and relatives in PyTorch, as in `our_side`."""

from pathlib import Path

import numpy as np
import torch
import transformers

from bert_keras.checkpoints.checkpoint import our_tensors
from bert_keras.checkpoints.huggingface.folder import is_transposed, weight_names
from bert_keras.checkpoints.tensors import of_array
from bert_keras.config import BertConfig, ModelMetadata
from bert_keras.families import FAMILIES, family_of

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

# Our model: the reference's class, and our names of what it puts out.
CLASSES: dict[str, tuple[str, dict[str, str]]] = {
    "BertEncoder": ("BertModel", {"pooler_output": "pooled_output"}),
    "BertPretrainer": (
        "BertForPreTraining",
        {
            "prediction_logits": "masked_lm",
            "seq_relationship_logits": "next_sentence",
            "logits": "replaced_token",  # of ELECTRA's, which is our BertDiscriminator
        },
    ),
    "BertMaskedLM": ("BertForMaskedLM", {"logits": "masked_lm"}),
    "BertClassifier": ("BertForSequenceClassification", {"logits": "classification"}),
    "BertTokenClassifier": ("BertForTokenClassification", {"logits": "token_labels"}),
    "BertQuestionAnswering": ("BertForQuestionAnswering", {"qa_outputs": "span"}),
    "BertMultipleChoice": ("BertForMultipleChoice", {"logits": "multiple_choice"}),
}
ACTIVATIONS = {"gelu_tanh": "gelu_pytorch_tanh"}
NUM_LABELS = {"BertClassifier": 3, "BertTokenClassifier": 5}


def random_reference(model: str, config: BertConfig, *, seed: int = 0) -> torch.nn.Module:
    """Every weight drawn, biases and LayerNorm's gamma and beta as well: each must count."""
    torch.manual_seed(seed)
    family = family_of(config)
    values = VALUES.get(family.kind, _bert)(config)
    if config.embedding_size:
        values["embedding_size"] = config.embedding_size
    theirs = getattr(transformers, f"{family.class_prefix}Config")(
        vocab_size=config.vocab_size,
        max_position_embeddings=config.max_positions + config.position_offset,
        initializer_range=config.initializer_stddev,
        num_labels=NUM_LABELS.get(model, 2),
        attn_implementation="eager",
        **values,
    )
    kind = CLASSES["BertPretrainer" if model == "BertDiscriminator" else model][0]
    kind = kind.removeprefix("Bert")
    reference = getattr(transformers, f"{family.class_prefix}{kind}")(theirs)
    _perturb(reference.parameters(), config.initializer_stddev)
    return reference.eval()


def _bert(config: BertConfig) -> dict[str, object]:
    return {
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.intermediate_size,
        "type_vocab_size": config.num_segments,
        "hidden_act": ACTIVATIONS.get(config.activation, config.activation),
        "layer_norm_eps": config.layer_norm_epsilon,
    }


def _electra(config: BertConfig) -> dict[str, object]:
    return {**_bert(config), "embedding_size": config.hidden_size}


def _distilbert(config: BertConfig) -> dict[str, object]:
    return {
        "dim": config.hidden_size,
        "n_layers": config.num_layers,
        "n_heads": config.num_heads,
        "hidden_dim": config.intermediate_size,
        "activation": ACTIVATIONS.get(config.activation, config.activation),
    }


def _modernbert(config: BertConfig) -> dict[str, object]:
    bases = {"full_attention": config.rotary_base, "sliding_attention": config.local_rotary_base}
    return {
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.intermediate_size,
        "norm_eps": config.layer_norm_epsilon,
        "local_attention": config.local_window,
        "global_attn_every_n_layers": config.global_every,
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()
        },
        "tie_word_embeddings": config.ties_decoder,
        "classifier_pooling": config.pooling,
        **dict.fromkeys(("pad_token_id", "bos_token_id", "cls_token_id"), 0),
        **dict.fromkeys(("eos_token_id", "sep_token_id"), 1),
        **dict.fromkeys(
            ("norm_bias", "mlp_bias", "attention_bias", "classifier_bias"), config.has_biases
        ),
    }


VALUES = {"distilbert": _distilbert, "modernbert": _modernbert, "electra": _electra}


def real_reference(model: str, folder: Path, *, seed: int = 0) -> torch.nn.Module:
    """The encoder of a folder of Hugging Face under heads that are drawn."""
    torch.manual_seed(seed)
    labels = {"num_labels": NUM_LABELS[model]} if model in NUM_LABELS else {}
    reference = getattr(transformers, CLASSES[model][0]).from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32, **labels
    )
    if model != "BertEncoder":
        heads = (p for name, p in reference.named_parameters() if not name.startswith("bert."))
        _perturb(heads, reference.config.initializer_range)
    return reference.eval()


def _perturb(parameters, stddev: float) -> None:
    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(stddev * torch.randn_like(parameter))


def outputs(reference: torch.nn.Module, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    with torch.no_grad():
        expected = reference(
            **_tensors(batch, reference), output_hidden_states=True, output_attentions=True
        )
    if "start_logits" in expected:
        expected["qa_outputs"] = torch.stack([expected.start_logits, expected.end_logits], dim=-1)
    kind = type(reference).__name__.removeprefix(_classes(reference))
    names = {**dict(CLASSES.values())[f"Bert{kind}"], "sop_logits": "next_sentence"}
    actual = {
        ours: expected[theirs].numpy() for theirs, ours in names.items() if theirs in expected
    }
    if batch["input_ids"].ndim == 2:
        for kind in ("hidden_states", "attentions"):
            actual |= {f"{kind}/{index}": each.numpy() for index, each in enumerate(expected[kind])}
    return actual


def loss_and_gradients(
    reference: torch.nn.Module, batch: dict[str, np.ndarray], *, metadata: ModelMetadata
) -> tuple[float, dict[str, np.ndarray]]:
    """Of pretraining: the two losses of the original's run_pretraining.py, summed; the first alone
    of a model without the second head."""
    expected = reference(**_tensors(batch, reference))
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
    """Of the reference's own loss."""
    loss = reference(**_tensors(batch, reference), labels=torch.tensor(is_replaced)).loss
    return loss.item(), _gradients(reference, loss, metadata=metadata)


def _gradients(reference, loss, *, metadata: ModelMetadata) -> dict[str, np.ndarray]:
    reference.zero_grad()
    loss.backward()
    before = f"{reference.base_model_prefix}."
    # XLM-RoBERTa's tied table comes first under the name that it has in the head.
    table = reference.get_input_embeddings().weight
    named = {
        "embeddings.word_embeddings.weight"
        if p is table and name.startswith("lm_head.")
        else name.removeprefix(before): of_array(p.shape, p.grad.float().numpy)
        for name, p in reference.named_parameters()
    }
    config = metadata.config
    names = weight_names(family_of(config), metadata.model, config)
    gradients = our_tensors(named, names, is_transposed=is_transposed)
    return {name: gradient.read() for name, gradient in gradients.items()}


def _classes(reference: torch.nn.Module) -> str:
    return FAMILIES[reference.config.model_type].class_prefix


def _tensors(batch: dict[str, np.ndarray], reference: torch.nn.Module) -> dict[str, torch.Tensor]:
    names = {
        "input_ids": "input_ids",
        "input_mask": "attention_mask",
        "segment_ids": "token_type_ids",
    }
    if reference.config.model_type in ("distilbert", "modernbert"):
        del names["segment_ids"]
    return {theirs: torch.tensor(batch[ours]).long() for ours, theirs in names.items()}

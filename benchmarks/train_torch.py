"""Builds the sides of train.py that run transformers."""

from collections.abc import Callable
from itertools import cycle

import numpy as np
import torch
import transformers
from torch.nn.functional import cross_entropy
from train_batches import (
    LEARNING_RATE,
    MAX_NORM,
    NUM_STEPS,
    NUM_WARMUP_STEPS,
    SEED,
    WEIGHT_DECAY,
    Batch,
    Work,
    every_position,
)

from bert_keras.config import BertConfig


def unmodified(work: Work) -> Callable[[], object]:
    """Builds BertForPreTraining with `labels`: logits of every position, AdamW without fusion."""
    model, update = training(work.config, fused=False)

    def tensors(batch: Batch) -> dict:
        inputs, targets, weights = every_position(batch)
        labels = np.where(weights["masked_lm"] > 0, targets["masked_lm"], -100)
        return {
            **model_inputs(inputs),
            "labels": torch.from_numpy(labels).long(),
            "next_sentence_label": torch.from_numpy(targets["next_sentence"]).long(),
        }

    stream = cycle([tensors(batch) for batch in work.batches])

    def turn() -> None:
        for _ in range(work.steps):
            update(model(**next(stream)).loss)

    return turn


def gathered(work: Work) -> Callable[[], object]:
    """Builds its encoder and heads with gathered masked positions and the fused AdamW."""
    model, update = training(work.config, fused=True)

    def tensors(batch: Batch) -> tuple:
        inputs, targets, weights = batch
        weight = torch.from_numpy(weights["masked_lm"]).flatten()
        return (
            model_inputs(inputs),
            torch.from_numpy(inputs["masked_lm_positions"]).long(),
            torch.from_numpy(targets["masked_lm"]).long().flatten(),
            weight / (weight.sum() + 1e-5),
            torch.from_numpy(targets["next_sentence"]).long(),
        )

    stream = cycle([tensors(batch) for batch in work.batches])

    def turn() -> None:
        for _ in range(work.steps):
            inputs, positions, ids, normalized, labels = next(stream)
            encoded = model.bert(**inputs)
            rows = torch.arange(len(positions))[:, None]
            logits = model.cls.predictions(encoded.last_hidden_state[rows, positions])
            losses = cross_entropy(logits.flatten(0, 1), ids, reduction="none")
            pairs = model.cls.seq_relationship(encoded.pooler_output)
            update((losses * normalized).sum() + cross_entropy(pairs, labels))

    return turn


def training(config: BertConfig, *, fused: bool):
    """Returns the model and the function that makes an update from a loss."""
    torch.manual_seed(SEED)
    model = pretrainer(config).train()
    optimizer = adamw(model, LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=fused or None)
    rates = transformers.get_linear_schedule_with_warmup(optimizer, NUM_WARMUP_STEPS, NUM_STEPS)

    def update(loss) -> None:
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        rates.step()
        optimizer.zero_grad()

    return model, update


def adamw(model, rate: float, *, weight_decay: float, fused: bool | None) -> torch.optim.AdamW:
    """Returns AdamW as in BERT: biases and LayerNorm have no weight decay."""
    exempt = ("bias", "LayerNorm.weight")
    named = list(model.named_parameters())
    groups = [
        {"params": [weight for name, weight in named if not name.endswith(exempt)]},
        {"params": [weight for name, weight in named if name.endswith(exempt)], "weight_decay": 0},
    ]
    return torch.optim.AdamW(groups, rate, eps=1e-6, weight_decay=weight_decay, fused=fused)


def pretrainer(config: BertConfig) -> transformers.BertForPreTraining:
    """Returns the model with its default attention, `sdpa`."""
    return transformers.BertForPreTraining(
        transformers.BertConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            intermediate_size=config.intermediate_size,
            hidden_dropout_prob=config.hidden_dropout_rate,
            attention_probs_dropout_prob=config.attention_dropout_rate,
        )
    )


def model_inputs(inputs: dict) -> dict:
    names = {
        "input_ids": "input_ids",
        "attention_mask": "input_mask",
        "token_type_ids": "segment_ids",
    }
    return {name: torch.from_numpy(inputs[source]).long() for name, source in names.items()}

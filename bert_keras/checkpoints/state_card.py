"""Which of a model's weights an optimizer has averages of."""

import dataclasses

from bert_keras.architectures import ARCHITECTURES
from bert_keras.checkpoints.card import ModelCard


def state_card(card: ModelCard, *, has_pooler: bool) -> ModelCard:
    """The card whose rows (see mapping) a training state must have, each one: those of `card`, but
    for a pooler that was not trained. `has_pooler`: whether the state has averages of one.
    """
    if ARCHITECTURES[card.model].reads_pooled_output or has_pooler:
        return card
    return dataclasses.replace(card, config=dataclasses.replace(card.config, has_pooler=False))

"""ELECTRA (Clark et al. 2020): discriminators and generators."""

import dataclasses

from bert_keras.families.bert import BASE
from bert_keras.families.bert import FAMILY as BERT
from bert_keras.families.family import Family, masked_lm_names
from bert_keras.families.roberta import TWO_LAYER_CLASSIFIER

_SIZE = {"has_pooler": False, "pooler_activation": "gelu", "masked_lm_activation": "gelu"}

FAMILY = Family(
    kind="electra",
    presets={
        # Not a published size; small enough to train on a laptop.
        "electra-tiny": dataclasses.replace(BERT.presets["tiny"], **_SIZE),
        "electra-small": dataclasses.replace(
            BERT.presets["L-12_H-256"], embedding_size=128, **_SIZE
        ),
        "electra-base": dataclasses.replace(BASE, **_SIZE),
        "electra-large": dataclasses.replace(BERT.presets["large"], **_SIZE),
    },
    # The heads that read the state of [CLS] begin with a dense layer and GELU.
    traits={"pooler_activation": "gelu", "masked_lm_activation": "gelu"},
    options=("embedding_size",),
    hub_names=(
        *(f"google/electra-{size}-discriminator" for size in ("small", "base", "large")),
        "monologg/koelectra-base-v3-discriminator",
    ),
    class_prefix="Electra",
    class_names={"BertPretrainer": "", "BertDiscriminator": "ForPreTraining"},
    has_pooler=False,
    weight_names={
        **BERT.weight_names,
        "encoder/embeddings/projection": ".embeddings_project",
        "encoder/pooler": "",
        **masked_lm_names(
            transform="generator_predictions.dense",
            norm="generator_predictions.LayerNorm",
            decoder="generator_lm_head",
        ),
        "next_sentence/dense": "",
        "replaced_token/transform": "discriminator_predictions.dense",
        "replaced_token/dense": "discriminator_predictions.dense_prediction",
    },
    model_weight_names={
        "BertClassifier": TWO_LAYER_CLASSIFIER,
        "BertMultipleChoice": {"encoder/pooler": "sequence_summary.summary"},
    },
    defaults={
        "embedding_size": 128,
        "hidden_size": 256,
        "intermediate_size": 1024,
        "num_attention_heads": 4,
    },
    dropout_keys=("classifier_dropout", "summary_last_dropout"),
    fixed_values={"summary_activation": "gelu", "summary_type": "first", "summary_use_proj": True},
)

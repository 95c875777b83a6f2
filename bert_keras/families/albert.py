"""ALBERT (Lan et al. 2019), in the sizes of version 2, which have no dropout."""

from bert_keras.config import BertConfig
from bert_keras.families.bert import FAMILY as BERT
from bert_keras.families.family import Family, KerasHub, block_names, masked_lm_names
from bert_keras.text.fast_tokenizer import ALBERT_SPECIALS


def _size(
    num_layers: int, hidden_size: int, num_heads: int, embedding_size: int = 128
) -> BertConfig:
    return BertConfig(
        vocab_size=30_000,
        embedding_size=embedding_size,
        hidden_size=hidden_size,
        num_layers=num_layers,
        shares_layers=True,
        num_heads=num_heads,
        activation="gelu_tanh",
        hidden_dropout_rate=0.0,
        attention_dropout_rate=0.0,
    )


FAMILY = Family(
    kind="albert",
    presets={
        # Not a published size; small enough to train on a laptop.
        "albert-tiny": _size(4, 128, 2, embedding_size=64),
        "albert-base": _size(12, 768, 12),
        "albert-large": _size(24, 1024, 16),
        "albert-xlarge": _size(24, 2048, 16),
        "albert-xxlarge": _size(12, 4096, 64),
    },
    specials=ALBERT_SPECIALS,
    traits={"shares_layers": True},
    sizes=("num_segments", "embedding_size"),
    hub_names=tuple(f"albert/albert-{s}-v2" for s in ("base", "large", "xlarge", "xxlarge")),
    class_prefix="Albert",
    weight_names={
        **BERT.weight_names,
        "encoder/embeddings/projection": ".encoder.embedding_hidden_mapping_in",
        **block_names(
            ".encoder.albert_layer_groups.{}.albert_layers.0.",
            "attention.query attention.key attention.value attention.dense attention.LayerNorm "
            "ffn ffn_output full_layer_layer_norm",
        ),
        "encoder/pooler": ".pooler",
        **masked_lm_names(
            transform="predictions.dense",
            norm="predictions.LayerNorm",
            decoder="predictions.decoder",
            bias="predictions.bias",
        ),
        "next_sentence/dense": "sop_classifier.classifier",
    },
    defaults={  # ALBERT-xxlarge
        "attention_probs_dropout_prob": 0.0,
        "embedding_size": 128,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.0,
        "hidden_size": 4096,
        "intermediate_size": 16_384,
        "num_attention_heads": 64,
        "vocab_size": 30_000,
    },
    dropout_keys=("classifier_dropout_prob",),
    fixed_values={"num_hidden_groups": 1, "inner_group_num": 1},
    keras_hub=KerasHub(
        sizes={"num_segments": "num_segments", "embedding_dim": "embedding_size"},
        prefix=("group_0_inner_layer_0/", "transformer_layer_0/"),
    ),
)

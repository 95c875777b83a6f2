"""MPNet (Song et al. 2020): RoBERTa with a relative bias of attention and WordPiece."""

import dataclasses

from bert_keras.families.bert import BASE
from bert_keras.families.family import Family, block_names
from bert_keras.families.roberta import FAMILY as ROBERTA
from bert_keras.text.vocab import MPNET_SPECIALS

# All models have 32 groups of distances; transformers computes with no other number.
_TRAITS = {"position_offset": 2, "position_kind": "relative", "num_relative_buckets": 32}
_BASE = dataclasses.replace(BASE, vocab_size=30_527, num_segments=0, **_TRAITS)

FAMILY = Family(
    kind="mpnet",
    presets={
        # Not a published size; small enough to train on a laptop.
        "mpnet-tiny": dataclasses.replace(_BASE, hidden_size=128, num_layers=2, num_heads=2),
        "mpnet-base": _BASE,
    },
    specials=MPNET_SPECIALS,
    traits=_TRAITS,
    sizes=(),
    hub_names=(
        "microsoft/mpnet-base",
        *(f"sentence-transformers/{name}-mpnet-base-v2" for name in ("all", "paraphrase")),
        *(f"sentence-transformers/multi-qa-mpnet-base-{name}-v1" for name in ("dot", "cos")),
    ),
    class_prefix="MPNet",
    class_names={"BertPretrainer": ""},
    weight_names={
        **ROBERTA.weight_names,
        "encoder/embeddings/segment": "",
        "encoder/relative/table": ".encoder.relative_attention_bias.weight",
        **block_names(
            ".encoder.layer.{}.",
            "attention.attn.q attention.attn.k attention.attn.v attention.attn.o "
            "attention.LayerNorm intermediate.dense output.dense output.LayerNorm",
        ),
    },
    model_weight_names=ROBERTA.model_weight_names,
    defaults={"vocab_size": 30_527},
    fixed_values={"pad_token_id": 1, "relative_attention_num_buckets": 32},
    has_gelu_head=True,
)

"""DeBERTa, versions 2 and 3 (He et al. 2021), without the convolution of its largest sizes."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from bert_keras.config import BertConfig
from bert_keras.errors import check_name
from bert_keras.families.bert import BASE
from bert_keras.families.bert import FAMILY as BERT
from bert_keras.families.family import BLOCK, Family
from bert_keras.text.fast_tokenizer import SENTENCEPIECE_SPECIALS
from bert_keras.text.vocab import Vocabulary

_TYPES = "c2p|p2c"  # queries are compared with distances, and keys with distances


def _read_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    types = values.get("pos_att_type") or ()
    types = "|".join(sorted(types.split("|") if isinstance(types, str) else types))
    check_name(types, (_TYPES,), what="supported pos_att_type")
    # Without groups, each distance up to max_position_embeddings would have its own.
    return {"num_relative_buckets": values.get("position_buckets", 256)}


def _more_values(config: BertConfig, vocabulary: Vocabulary | None) -> dict[str, Any]:
    return {
        "pos_att_type": _TYPES,
        "position_buckets": config.num_relative_buckets,
        "pooler_hidden_size": config.hidden_size,
        "type_vocab_size": 0,
    }


_TRAITS = {"position_kind": "disentangled", "pooler_activation": "gelu"}
_BASE = dataclasses.replace(
    BASE,
    vocab_size=128_100,
    num_segments=0,
    num_relative_buckets=256,
    layer_norm_epsilon=1e-7,
    has_pooler=False,
    **_TRAITS,
)
_XSMALL = {"hidden_size": 384, "num_heads": 6, "intermediate_size": 1536}
_LARGE = {"hidden_size": 1024, "num_layers": 24, "num_heads": 16, "intermediate_size": 4096}
_TINY = {"hidden_size": 128, "num_layers": 2, "num_heads": 2, "intermediate_size": 512}

FAMILY = Family(
    kind="deberta-v2",
    presets={
        # Not a published size; small enough to train on a laptop.
        "deberta-tiny": dataclasses.replace(
            _BASE, vocab_size=30_522, num_relative_buckets=32, **_TINY
        ),
        "deberta-v3-xsmall": dataclasses.replace(_BASE, **_XSMALL),
        "deberta-v3-small": dataclasses.replace(_BASE, num_layers=6),
        "deberta-v3-base": _BASE,
        "deberta-v3-large": dataclasses.replace(_BASE, **_LARGE),
        "mdeberta-v3-base": dataclasses.replace(_BASE, vocab_size=251_000),
        "kf-deberta-base": dataclasses.replace(_BASE, vocab_size=130_000),
    },
    specials=SENTENCEPIECE_SPECIALS,
    traits=_TRAITS,
    sizes=(),
    hub_names=(
        *(f"microsoft/deberta-v3-{size}" for size in ("xsmall", "small", "base", "large")),
        *("microsoft/mdeberta-v3-base", "kakaobank/kf-deberta-base"),
    ),
    class_prefix="DebertaV2",
    class_names={"BertPretrainer": ""},
    has_pooler=False,
    prefix="deberta",
    weight_names={
        **BERT.weight_names,
        **dict.fromkeys(("encoder/embeddings/position", "encoder/embeddings/segment"), ""),
        "encoder/relative/table": ".encoder.rel_embeddings.weight",
        "encoder/relative/norm": ".encoder.LayerNorm",
        **{
            f"{BLOCK}/attention/{name}": f".encoder.layer.{{}}.attention.self.{name}_proj"
            for name in ("query", "key", "value")
        },
        "encoder/pooler": "pooler.dense",  # belongs to the heads that read it
        "next_sentence/dense": "",
    },
    # The heads of version 3's pretraining, and a table that version 2 and 3 do not read
    unused_weights=("lm_predictions.", "mask_predictions.", "embeddings.position_embeddings."),
    # An absent key has the default of transformers, which differs from the supported value.
    defaults={
        "layer_norm_eps": 1e-7,
        "norm_rel_ebd": "none",
        "position_biased_input": True,
        "position_buckets": -1,
        "relative_attention": False,
        "share_att_key": False,
        "vocab_size": 128_100,
    },
    dropout_keys=("cls_dropout",),
    fixed_values={
        "conv_kernel_size": 0,
        "max_relative_positions": -1,
        "norm_rel_ebd": "layer_norm",
        "pooler_dropout": 0,
        "pooler_hidden_act": "gelu",
        "position_biased_input": False,
        "relative_attention": True,
        "share_att_key": True,
    },
    read_fields=_read_fields,
    more_values=_more_values,
)

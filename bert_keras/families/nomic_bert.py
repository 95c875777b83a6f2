"""NomicBERT (Nussbaum et al. 2024): BERT with rotary positions, SwiGLU and few biases.

Published files have the layout of their own code, with the keys of GPT-2's config.json;
transformers and this package write another layout, and read both.
"""

import dataclasses
from typing import Any

from bert_keras.families.bert import BASE
from bert_keras.families.family import Family, masked_lm_names
from bert_keras.families.gte import FAMILY as GTE
from bert_keras.families.gte import TRAITS, read_rotary, rotary_values

# Published keys and activations -> those of transformers
_KEYS = {
    **{"n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_inner": "intermediate_size"},
    **{"n_head": "num_attention_heads", "n_positions": "max_position_embeddings"},
    **{"attn_pdrop": "attention_probs_dropout_prob", "resid_pdrop": "hidden_dropout_prob"},
    **{"activation_function": "hidden_act", "layer_norm_epsilon": "layer_norm_eps"},
    "rotary_emb_base": "rope_theta",
}
_GATED = {"swiglu": "silu", "geglu": "gelu"}


def _native_values(values: dict[str, Any]) -> dict[str, Any]:
    values = {_KEYS.get(key, key): value for key, value in values.items()}
    if (activation := values.get("hidden_act")) in _GATED:
        values["hidden_act"] = _GATED[activation]
    names = values.get("architectures") or []
    names = [name.replace("ForPreTraining", "ForMaskedLM") for name in names]
    return values | {"architectures": names}


_TRAITS = {**TRAITS, "block_biases": "none"}
_SIZE = {"activation": "silu", "rotary_base": 1000.0, "has_pooler": False, **_TRAITS}
_SIZE |= {"hidden_dropout_rate": 0.0, "attention_dropout_rate": 0.0}
_TINY = {"hidden_size": 128, "num_layers": 2, "num_heads": 2, "intermediate_size": 512}
_TRANSFORM = "cls.predictions.transform"

FAMILY = Family(
    kind="nomic_bert",
    presets={
        # Not a published size; small enough to train on a laptop.
        "nomic-bert-tiny": dataclasses.replace(BASE, **_TINY, **_SIZE),
        "nomic-bert-base": dataclasses.replace(
            BASE, vocab_size=30_528, max_positions=2048, **_SIZE
        ),
    },
    traits=_TRAITS,
    options=("rotary_divisor",),
    hub_names=("nomic-ai/nomic-embed-text-v1", "nomic-ai/nomic-embed-text-v1.5"),
    class_prefix="NomicBert",
    class_names=GTE.class_names,
    has_pooler=False,
    weight_names={
        **GTE.weight_names,
        **masked_lm_names(
            transform=f"{_TRANSFORM}.dense",
            norm=f"{_TRANSFORM}.layer_norm",
            decoder="cls.predictions.decoder",
            bias="cls.predictions.bias",
        ),
    },
    published_names={
        **{"bert.": "", "emb_ln": "embeddings.LayerNorm", "encoder.layers": "layers"},
        **{"norm1": "post_attention_layernorm", "norm2": "post_mlp_layernorm"},
        **{"fc11": "up_proj", "fc12": "gate_proj", "fc2": "down_proj"},
        "attn.Wqkv": tuple(f"self_attn.{name}_proj" for name in "qkv"),
        "attn.out_proj": "self_attn.o_proj",
    },
    defaults={
        **dict.fromkeys(("attention_probs_dropout_prob", "hidden_dropout_prob"), 0.0),
        **{"hidden_act": "silu", "max_position_embeddings": 2048},
        **{"rope_theta": 1000.0, "vocab_size": 30_528},
    },
    published_values={
        **dict.fromkeys(("causal", "parallel_block", "prenorm", "use_rms_norm"), False),
        **dict.fromkeys(("mlp_fc1_bias", "mlp_fc2_bias", "qkv_proj_bias"), False),
        **{"rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False},
        "rotary_scaling_factor": None,  # scaling that depends on the length of the text
    },
    native_values=_native_values,
    read_fields=read_rotary,
    more_values=rotary_values,
)

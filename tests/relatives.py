"""Changes of the configuration that make a small model one of BERT's relatives.

KLUE, KoBERT, KoELECTRA, mmBERT and the multilingual BERT are configured like other relatives, but
have their own tokenizers.
"""

_ROBERTA = {"position_offset": 2, "num_segments": 1}
_ELECTRA = {"embedding_size": 12, "pooler_activation": "gelu", "masked_lm_activation": "gelu"}
_ROTARY = {"position_kind": "rotary", "is_gated": True}
_MODERNBERT = {
    **{"norm_position": "pre", "position_kind": "rotary", "is_gated": True, "num_segments": 0},
    **{"has_biases": False, "local_window": 4, "num_layers": 2},
    **{"pooler_activation": "", "has_head_norm": True},
}
CHANGES = {
    "distilbert": {"num_segments": 0, "pooler_activation": "relu"},
    "albert": {"embedding_size": 12, "shares_layers": True, "num_layers": 2},
    "roberta": _ROBERTA,
    "modernbert": _MODERNBERT,
    "electra": _ELECTRA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "mpnet": {
        **{"position_offset": 2, "position_kind": "relative", "num_relative_buckets": 32},
        "num_segments": 0,
    },
    "deberta-v2": {
        **{"position_kind": "disentangled", "num_relative_buckets": 8, "num_segments": 0},
        "pooler_activation": "gelu",
    },
    "nomic_bert": {**_ROTARY, "block_biases": "none", "activation": "silu"},
    "gte": {**_ROTARY, "block_biases": "not_gate", "num_segments": 0, "rotary_divisor": 1.5},
    "neobert": {
        **{**_ROTARY, "block_biases": "none", "activation": "silu", "num_segments": 0},
        **{"norm_position": "pre", "norm_kind": "rms", "has_embedding_norm": False},
    },
    "klue-bert": {},
    "klue-roberta": _ROBERTA,
    "kobert": {},
    "koelectra": _ELECTRA,
    "multilingual-bert": {},
    "mmbert": _MODERNBERT,
}
# The kind in config.json, for the names above that are not kinds.
KINDS = {
    **{"klue-bert": "bert", "klue-roberta": "roberta", "kobert": "bert", "koelectra": "electra"},
    **{"multilingual-bert": "bert", "mmbert": "modernbert"},
}
KOREAN = ("xlm-roberta", *KINDS)  # with Korean tokens

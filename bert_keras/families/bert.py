"""BERT (Devlin et al. 2018) and the models that differ from it only in size or vocabulary.

Sources of the sizes: Turc et al. 2019 (up to L-12_H-768), google-research/bert (multilingual),
Park et al. 2021 (KLUE), SKTBrain/KoBERT.
"""

import dataclasses

from bert_keras.config import BertConfig
from bert_keras.families.family import Family, KerasHub, block_names, masked_lm_names


def _size(num_layers: int, hidden_size: int) -> BertConfig:
    return BertConfig(num_layers=num_layers, hidden_size=hidden_size, num_heads=hidden_size // 64)


_SIZES = {
    f"L-{num_layers}_H-{hidden_size}": _size(num_layers, hidden_size)
    for num_layers in (2, 4, 6, 8, 10, 12)
    for hidden_size in (128, 256, 512, 768)
}
_NAMES = tuple(_SIZES)
_SIZES |= {
    "tiny": _SIZES["L-2_H-128"],
    "mini": _SIZES["L-4_H-256"],
    "small": _SIZES["L-4_H-512"],
    "medium": _SIZES["L-8_H-512"],
    "base": _SIZES["L-12_H-768"],
    "large": _size(24, 1024),
}
BASE = _SIZES["base"]

FAMILY = Family(
    kind="bert",
    presets={
        **_SIZES,
        # Not published: the sizes of the same names, with changes that need fewer training steps.
        **{
            f"modern-{name}": dataclasses.replace(
                _SIZES[name], norm_position="pre", position_kind="rotary"
            )
            for name in ("tiny", "mini", "medium", "base")
        },
        "bert-base-multilingual-cased": dataclasses.replace(BASE, vocab_size=119_547),
        "kobert-base": dataclasses.replace(BASE, vocab_size=8_002),
        "klue-bert-base": dataclasses.replace(BASE, vocab_size=32_000),
    },
    hub_names=(
        *("google-bert/bert-base-uncased", "google-bert/bert-base-cased"),
        *("google-bert/bert-large-uncased", "google-bert/bert-large-cased"),
        *("google-bert/bert-base-multilingual-cased", "klue/bert-base", "skt/kobert-base-v1"),
        *(f"sentence-transformers/all-MiniLM-L{num_layers}-v2" for num_layers in (6, 12)),
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
        *("BAAI/bge-base-en-v1.5", "intfloat/multilingual-e5-small"),
        *(f"google/bert_uncased_{name}_A-{_SIZES[name].num_heads}" for name in _NAMES),
    ),
    class_prefix="Bert",
    weight_names={
        "encoder/embeddings/token": ".embeddings.word_embeddings.weight",
        "encoder/embeddings/position": ".embeddings.position_embeddings.weight",
        "encoder/embeddings/segment": ".embeddings.token_type_embeddings.weight",
        "encoder/embeddings/norm": ".embeddings.LayerNorm",
        **block_names(
            ".encoder.layer.{}.",
            "attention.self.query attention.self.key attention.self.value attention.output.dense "
            "attention.output.LayerNorm intermediate.dense output.dense output.LayerNorm",
        ),
        "encoder/pooler": ".pooler.dense",
        **masked_lm_names(
            transform="cls.predictions.transform.dense",
            norm="cls.predictions.transform.LayerNorm",
            decoder="cls.predictions.decoder",
            bias="cls.predictions.bias",
        ),
        "next_sentence/dense": "cls.seq_relationship",
    },
    keras_hub=KerasHub(sizes={"num_segments": "num_segments"}),
)

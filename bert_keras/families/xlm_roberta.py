"""XLM-RoBERTa (Conneau et al. 2020): RoBERTa's network with SentencePiece's tokenizer."""

import dataclasses

from bert_keras.families.roberta import FAMILY as ROBERTA
from bert_keras.text.fast_tokenizer import XLM_ROBERTA_SPECIALS

FAMILY = dataclasses.replace(
    ROBERTA,
    kind="xlm-roberta",
    presets={
        f"xlm-{name}": dataclasses.replace(ROBERTA.presets[name], vocab_size=250_002)
        for name in ("roberta-base", "roberta-large")
    },
    specials=XLM_ROBERTA_SPECIALS,
    hub_names=(
        *("FacebookAI/xlm-roberta-base", "FacebookAI/xlm-roberta-large"),
        *("intfloat/multilingual-e5-base", "intfloat/multilingual-e5-large"),
        *("BAAI/bge-m3", "nlpai-lab/KURE-v1"),
    ),
    class_prefix="XLMRoberta",
    prefix="roberta",
    defaults={},
    keras_hub=None,
)

"""RoBERTa (Liu et al. 2019) and the RoBERTa of KLUE (Park et al. 2021)."""

import dataclasses

from bert_keras.families.bert import BASE
from bert_keras.families.bert import FAMILY as BERT
from bert_keras.families.family import Family, KerasHub, masked_lm_names
from bert_keras.text.fast_tokenizer import ROBERTA_SPECIALS

SIZE = {"vocab_size": 50_265, "num_segments": 1, "position_offset": 2, "layer_norm_epsilon": 1e-5}
_LARGE = dataclasses.replace(BERT.presets["large"], **SIZE)
# In a classifier, the pooler is a layer of the classification head.
TWO_LAYER_CLASSIFIER = {
    "encoder/pooler": "classifier.dense",
    "classification/dense": "classifier.out_proj",
}

FAMILY = Family(
    kind="roberta",
    presets={
        # Not a published size; small enough to train on a laptop.
        "roberta-tiny": dataclasses.replace(BERT.presets["tiny"], **SIZE),
        "roberta-base": dataclasses.replace(BASE, **SIZE),
        "roberta-large": _LARGE,
        "klue-roberta-base": dataclasses.replace(BASE, **SIZE | {"vocab_size": 32_000}),
        "klue-roberta-large": dataclasses.replace(_LARGE, vocab_size=32_000),
    },
    specials=ROBERTA_SPECIALS,
    traits={"position_offset": 2},  # positions count from pad_token_id + 1
    hub_names=(
        *("FacebookAI/roberta-base", "FacebookAI/roberta-large", "distilbert/distilroberta-base"),
        *("klue/roberta-base", "klue/roberta-large"),
    ),
    class_prefix="Roberta",
    weight_names={
        **BERT.weight_names,
        **masked_lm_names("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias"),
        "next_sentence/dense": "",
    },
    model_weight_names={"BertClassifier": TWO_LAYER_CLASSIFIER},
    defaults={"vocab_size": 50_265},
    fixed_values={"pad_token_id": 1},
    has_gelu_head=True,
    keras_hub=KerasHub(has_pooler=False, prefix=("embeddings/", "")),
)

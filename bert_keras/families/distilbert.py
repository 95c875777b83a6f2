"""DistilBERT (Sanh et al. 2019)."""

from bert_keras.config import BertConfig
from bert_keras.families.bert import FAMILY as BERT
from bert_keras.families.family import Family, KerasHub

_BLOCK, _THEIR_BLOCK = "encoder/layer_{}", ".transformer.layer.{}"

FAMILY = Family(
    kind="distilbert",
    presets={
        "distilbert": BertConfig(
            num_layers=6, num_segments=0, has_pooler=False, pooler_activation="relu"
        )
    },
    traits={"pooler_activation": "relu", "layer_norm_epsilon": 1e-12},
    sizes=(),
    hub_names=("distilbert/distilbert-base-uncased", "distilbert/distilbert-base-cased"),
    class_prefix="DistilBert",
    has_pooler=False,
    weight_names={
        **BERT.weight_names,
        "encoder/embeddings/segment": "",
        f"{_BLOCK}/attention/query": f"{_THEIR_BLOCK}.attention.q_lin",
        f"{_BLOCK}/attention/key": f"{_THEIR_BLOCK}.attention.k_lin",
        f"{_BLOCK}/attention/value": f"{_THEIR_BLOCK}.attention.v_lin",
        f"{_BLOCK}/attention/output": f"{_THEIR_BLOCK}.attention.out_lin",
        f"{_BLOCK}/attention_norm": f"{_THEIR_BLOCK}.sa_layer_norm",
        f"{_BLOCK}/feed_forward/intermediate": f"{_THEIR_BLOCK}.ffn.lin1",
        f"{_BLOCK}/feed_forward/output": f"{_THEIR_BLOCK}.ffn.lin2",
        f"{_BLOCK}/feed_forward_norm": f"{_THEIR_BLOCK}.output_layer_norm",
        "encoder/pooler": "pre_classifier",  # belongs to the classifier, with ReLU
        "masked_lm/transform": "vocab_transform",
        "masked_lm/norm": "vocab_layer_norm",
        "masked_lm/decoder": "vocab_projector.weight",
        "masked_lm/output_bias": "vocab_projector.bias",
        "next_sentence/dense": "",
    },
    config_keys={
        "attention_probs_dropout_prob": "attention_dropout",
        "hidden_dropout_prob": "dropout",
        "hidden_size": "dim",
        "intermediate_size": "hidden_dim",
        "num_attention_heads": "n_heads",
        "num_hidden_layers": "n_layers",
    },
    activation_keys=("activation",),
    defaults={"n_layers": 6},
    dropout_keys=("seq_classif_dropout", "qa_dropout"),
    keras_hub=KerasHub(has_pooler=False, prefix=("token_and_position_embedding/", "")),
)

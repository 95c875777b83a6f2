"""DistilBERT (Sanh et al. 2019)."""

from bert_keras.config import BertConfig
from bert_keras.families.bert import FAMILY as BERT
from bert_keras.families.family import Family, KerasHub, block_names, masked_lm_names

FAMILY = Family(
    kind="distilbert",
    presets={
        "distilbert": BertConfig(
            num_layers=6, num_segments=0, has_pooler=False, pooler_activation="relu"
        )
    },
    traits={"pooler_activation": "relu", "layer_norm_epsilon": 1e-12},
    sizes=(),
    hub_names=tuple(
        f"distilbert/distilbert-base-{end}" for end in ("uncased", "cased", "multilingual-cased")
    ),
    class_prefix="DistilBert",
    has_pooler=False,
    weight_names={
        **BERT.weight_names,
        "encoder/embeddings/segment": "",
        **block_names(
            ".transformer.layer.{}.",
            "attention.q_lin attention.k_lin attention.v_lin attention.out_lin sa_layer_norm "
            "ffn.lin1 ffn.lin2 output_layer_norm",
        ),
        "encoder/pooler": "pre_classifier",  # belongs to the classifier, with ReLU
        **masked_lm_names("vocab_transform", "vocab_layer_norm", "vocab_projector"),
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

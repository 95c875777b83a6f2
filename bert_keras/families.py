"""Lists BERT and its relatives as plain data; other modules read these rows.

`FAMILIES` holds one row for each kind of encoder. All kinds share the class `BertEncoder` under
another configuration.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from bert_keras.architectures import CLASSIFIER, DISCRIMINATOR, MULTIPLE_CHOICE, PRETRAINER
from bert_keras.family import OPTIONAL_SIZES, Family
from bert_keras.text.vocab import WORD_MARK, Vocabulary

if TYPE_CHECKING:
    from bert_keras.config import BertConfig

_NO_NEXT_SENTENCE = {"cls.seq_relationship.weight": "", "cls.seq_relationship.bias": ""}
# For a classifier whose pooler is a layer of the classification head.
_TWO_LAYER_CLASSIFIER = {
    "classifier.weight": "classifier.out_proj.weight",
    "classifier.bias": "classifier.out_proj.bias",
    "pooler.dense": "classifier.dense",
}

BERT = Family(kind="bert", class_prefix="Bert")
# Sanh et al. 2019. In the classifier, the pooler is called pre_classifier and uses ReLU.
DISTILBERT = Family(
    kind="distilbert",
    class_prefix="DistilBert",
    traits={"pooler_activation": "relu", "layer_norm_epsilon": 1e-12},
    sizes=(),
    has_pooler=False,
    weight_names={
        "encoder.layer.": "transformer.layer.",
        "attention.self.query": "attention.q_lin",
        "attention.self.key": "attention.k_lin",
        "attention.self.value": "attention.v_lin",
        "attention.output.dense": "attention.out_lin",
        "attention.output.LayerNorm": "sa_layer_norm",
        "intermediate.dense": "ffn.lin1",
        "output.dense": "ffn.lin2",
        "output.LayerNorm": "output_layer_norm",
        "pooler.dense": "pre_classifier",
        "cls.predictions.transform.dense": "vocab_transform",
        "cls.predictions.transform.LayerNorm": "vocab_layer_norm",
        "cls.predictions.decoder": "vocab_projector",
        "cls.predictions.bias": "vocab_projector.bias",
        **_NO_NEXT_SENTENCE,
    },
    config_keys={
        "attention_probs_dropout_prob": "attention_dropout",
        "hidden_dropout_prob": "dropout",
        "hidden_size": "dim",
        "intermediate_size": "hidden_dim",
        "num_attention_heads": "n_heads",
        "num_hidden_layers": "n_layers",
        "hidden_act": "activation",
    },
    defaults={"n_layers": 6},
    dropout_keys=("seq_classif_dropout", "qa_dropout"),
    ignored_keys=("sinusoidal_pos_embds", "tie_weights_"),
)
# Lan et al. 2019. The defaults in transformers are those of ALBERT-xxlarge.
ALBERT = Family(
    kind="albert",
    class_prefix="Albert",
    traits={"shares_layers": True},
    sizes=OPTIONAL_SIZES,
    weight_names={
        "encoder.layer.0.": "encoder.albert_layer_groups.0.albert_layers.0.",
        "attention.self.": "attention.",
        "attention.output.": "attention.",
        "intermediate.dense": "ffn",
        "output.dense": "ffn_output",
        "output.LayerNorm": "full_layer_layer_norm",
        "embeddings.projection": "encoder.embedding_hidden_mapping_in",
        "pooler.dense": "pooler",
        "cls.predictions.transform.": "predictions.",
        "cls.predictions.": "predictions.",
        "cls.seq_relationship": "sop_classifier.classifier",
    },
    defaults={
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
    ignored_keys=(
        *("down_scale_factor", "gap_size", "layers_to_keep", "net_structure_type"),
        "num_memory_blocks",
    ),
)
# Liu et al. 2019. Positions count from pad_token_id + 1.
ROBERTA = Family(
    kind="roberta",
    class_prefix="Roberta",
    traits={"position_offset": 2},
    weight_names={
        "cls.predictions.transform.dense": "lm_head.dense",
        "cls.predictions.transform.LayerNorm": "lm_head.layer_norm",
        "cls.predictions.": "lm_head.",
        **_NO_NEXT_SENTENCE,
    },
    model_weight_names={CLASSIFIER.name: _TWO_LAYER_CLASSIFIER},
    defaults={"vocab_size": 50_265},
    fixed_values={"pad_token_id": 1},
)
# Conneau et al. 2020. The network is RoBERTa's, and the tokenizer SentencePiece's.
XLM_ROBERTA = replace(
    ROBERTA,
    kind="xlm-roberta",
    word_start=WORD_MARK,
    prefix=ROBERTA.kind,
    class_prefix="XLMRoberta",
    defaults={},
)
# Warner et al. 2024. The matrices of query, key and value are one weight, and the encoder has no
# pooler.
MODERNBERT = Family(
    kind="modernbert",
    prefix="model",
    class_prefix="ModernBert",
    traits={
        "norm_position": "pre",
        "position_kind": "rotary",
        "is_gated": True,
        "pooler_activation": "",
        "has_head_norm": True,
    },
    options=("has_biases", "ties_decoder", "local_window", "pooling"),
    sizes=(),
    has_pooler=False,
    weight_names={
        "embeddings.word_embeddings": "embeddings.tok_embeddings",
        "embeddings.LayerNorm": "embeddings.norm",
        "encoder.layer.": "layers.",
        "attention.self.query": "attn.Wqkv",
        "attention.self.key": "attn.Wqkv",
        "attention.self.value": "attn.Wqkv",
        "attention.output.dense": "attn.Wo",
        "attention.output.LayerNorm": "attn_norm",
        "intermediate.dense": "mlp.Wi",
        "output.dense": "mlp.Wo",
        "output.LayerNorm": "mlp_norm",
        "pooler.dense.weight": "",
        "pooler.dense.bias": "",
        "pooler.norm.weight": "",
        "pooler.norm.bias": "",
        "qa_outputs": "classifier",
        "cls.predictions.transform.dense": "head.dense",
        "cls.predictions.transform.LayerNorm": "head.norm",
        "cls.predictions.decoder": "decoder",
        "cls.predictions.bias": "decoder.bias",
        **_NO_NEXT_SENTENCE,
    },
    model_weight_names={
        CLASSIFIER.name: {"pooler.": "head."},
        MULTIPLE_CHOICE.name: {"pooler.": "head."},
    },
    config_keys={
        "attention_probs_dropout_prob": "attention_dropout",
        "hidden_act": "hidden_activation",
        "hidden_dropout_prob": "mlp_dropout",
        "layer_norm_eps": "norm_eps",
    },
    defaults={
        "attention_dropout": 0.0,
        "intermediate_size": 1152,
        "max_position_embeddings": 8192,
        "mlp_dropout": 0.0,
        "norm_eps": 1e-5,
        "num_hidden_layers": 22,
        "vocab_size": 50_368,
    },
    dropout_keys=("embedding_dropout", "classifier_dropout"),
    fixed_values={"decoder_bias": True},
    ignored_keys=(
        *("cls_token_id", "deterministic_flash_attn", "layer_norm_eps"),
        *("initializer_cutoff_factor", "reference_compile", "repad_logits_with_grad"),
        *("sep_token_id", "sparse_pred_ignore_index", "sparse_prediction"),
    ),
)
# Clark et al. 2020: discriminators and generators. The encoder has no pooler. The heads that read
# the state of [CLS] begin with a dense layer and GELU, and that of the generator has GELU with
# every activation of the encoder.
ELECTRA = Family(
    kind="electra",
    class_prefix="Electra",
    class_names={PRETRAINER.name: "", DISCRIMINATOR.name: "ForPreTraining"},
    traits={"pooler_activation": "gelu", "masked_lm_activation": "gelu"},
    options=("embedding_size",),
    has_pooler=False,
    weight_names={
        "embeddings.projection": "embeddings_project",
        "pooler.dense.weight": "",
        "pooler.dense.bias": "",
        "cls.predictions.transform.": "generator_predictions.",
        "cls.predictions.decoder": "generator_lm_head",
        "cls.predictions.bias": "generator_lm_head.bias",
        **_NO_NEXT_SENTENCE,
    },
    model_weight_names={
        CLASSIFIER.name: _TWO_LAYER_CLASSIFIER,
        MULTIPLE_CHOICE.name: {"pooler.dense": "sequence_summary.summary"},
    },
    defaults={
        "embedding_size": 128,
        "hidden_size": 256,
        "intermediate_size": 1024,
        "num_attention_heads": 4,
    },
    dropout_keys=("summary_last_dropout",),
    fixed_values={"summary_activation": "gelu", "summary_type": "first", "summary_use_proj": True},
)
FAMILIES: dict[str, Family] = {
    row.kind: row for row in (BERT, DISTILBERT, ALBERT, ROBERTA, XLM_ROBERTA, MODERNBERT, ELECTRA)
}


def family_of(config: "BertConfig", vocabulary: Vocabulary | None = None) -> Family | None:
    """Returns the family of an encoder, or None if it belongs to none.

    Only the native checkpoint format can store an encoder without a family. The vocabulary decides
    between families of the same configurations; without one, it is the first of them.
    """
    families = [family for family in FAMILIES.values() if family.includes(config)]
    start = vocabulary.specials.word_start if vocabulary is not None else None
    chosen = (family for family in families if family.word_start == start)
    return next(chosen, families[0] if families else None)

"""Lists BERT and its relatives as plain data; other modules read these rows.

`FAMILIES` holds one row for each kind of encoder. All kinds share the class `BertEncoder` under
another configuration.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bert_keras.architectures import CLASSIFIER, MULTIPLE_CHOICE

if TYPE_CHECKING:
    from bert_keras.config import BertConfig


@dataclass(frozen=True, kw_only=True)
class Family:
    """A kind of encoder: the configuration values of its members and its Hugging Face names.

    The names of weights and config.json keys are those of the transformers library.
    """

    kind: str  # model_type in config.json
    # Prefix of the encoder's weight names in task models, without a dot; "" means `kind`.
    prefix: str = ""
    class_prefix: str  # start of the class names, such as "DistilBert", also in keras_hub
    # Values of BertConfig fields that all members share and that differ from `BERT_TRAITS`.
    traits: Mapping[str, object] = field(default_factory=dict)
    options: tuple[str, ...] = ()  # fields in BERT_TRAITS in which members differ
    # Fields in OPTIONAL_SIZES that are above 0 in every member; the others there are 0.
    sizes: tuple[str, ...] = ("num_segments",)
    has_pooler: bool = True  # whether the class of the bare encoder has a pooler
    # Parts of BERT's weight names and their replacements. `weight_name` applies them in order,
    # those of `model_weight_names` first. A weight that the family does not have gets the name "".
    weight_names: Mapping[str, str] = field(default_factory=dict)
    # Replacements that apply to one model only, by the name of our model.
    model_weight_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # Keys of BERT's config.json and this family's keys for the same values.
    config_keys: Mapping[str, str] = field(default_factory=dict)
    # Defaults of absent config.json keys, by this family's keys, where they differ from BERT's.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    dropout_keys: tuple[str, ...] = ()  # config.json keys of the dropout rates of heads
    # config.json keys of which only one value is supported, and that value.
    fixed_values: Mapping[str, Any] = field(default_factory=dict)
    ignored_keys: tuple[str, ...] = ()  # config.json keys that have no effect here

    def includes(self, config: "BertConfig") -> bool:
        """Returns whether an encoder with this configuration belongs to the family."""
        values = {**BERT_TRAITS, **self.traits}
        return all(
            getattr(config, name) == value or name in self.options for name, value in values.items()
        ) and all((getattr(config, name) > 0) == (name in self.sizes) for name in OPTIONAL_SIZES)

    @property
    def weight_prefix(self) -> str:
        """The prefix of the encoder's weight names in task models, such as `bert.`."""
        return f"{self.prefix or self.kind}."

    def weight_name(self, name: str, *, model: str) -> str:
        """Returns this family's name of a weight.

        Args:
            name: The name of the weight in Hugging Face's BERT.
            model: The name of our model class that has the weight.

        Returns:
            The name, or "" if models of this family do not have the weight.
        """
        for names in (self.model_weight_names.get(model, {}), self.weight_names):
            for old, new in names.items():
                name = name.replace(old, new)
        return name

    def config_key(self, name: str) -> str:
        """Returns this family's config.json key for the BERT key `name`."""
        return self.config_keys.get(name, name)


# Fields of BertConfig that distinguish families only by whether their value is 0.
OPTIONAL_SIZES = ("num_segments", "embedding_size")
# BERT's values of the BertConfig fields that distinguish families; `Family.traits` overrides them.
BERT_TRAITS = {
    "shares_layers": False,
    "position_offset": 0,
    "pooler_activation": "tanh",
    "is_causal": False,
    "norm_position": "post",
    "position_kind": "learned",
    "is_gated": False,
    "has_biases": True,
    "ties_decoder": True,
    "local_window": 0,
    "has_head_norm": False,
    "pooling": "cls",
}
_NO_NEXT_SENTENCE = {"cls.seq_relationship.weight": "", "cls.seq_relationship.bias": ""}

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
# Liu et al. 2019. Positions count from pad_token_id + 1. In a classifier, the pooler is a layer of
# the classification head.
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
    model_weight_names={
        CLASSIFIER.name: {
            "classifier.weight": "classifier.out_proj.weight",
            "classifier.bias": "classifier.out_proj.bias",
            "pooler.dense": "classifier.dense",
        }
    },
    defaults={"vocab_size": 50_265},
    fixed_values={"pad_token_id": 1},
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
FAMILIES: dict[str, Family] = {
    row.kind: row for row in (BERT, DISTILBERT, ALBERT, ROBERTA, MODERNBERT)
}


def family_of(config: "BertConfig") -> Family | None:
    """Returns the family of an encoder, or None if it belongs to none.

    Only the native checkpoint format can store an encoder without a family.
    """
    return next((family for family in FAMILIES.values() if family.includes(config)), None)

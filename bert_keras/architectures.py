"""A config in, the family of models that it is of out: BERT or a relative, as Hugging Face has it.

Every family is the one encoder in other numbers. What differs elsewhere is names: of classes, of
weights, of the keys of config.json.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bert_keras.config import BertConfig


@dataclass(frozen=True, kw_only=True)
class Family:
    """`kind` is the model_type of config.json and stands before the names of an encoder's weights,
    `classes` how the names of its classes begin.

    `traits` are fields of BertConfig that all of the family have, `counts` those of COUNTS that are
    not 0 in it. `weights` leads from names of BERT's weights to this family's, replaced in this
    order, those of one model's first; a name that becomes "" has no place there. `keys` leads from
    keys of BERT's config.json to this family's, and `defaults` says what one is that is left out,
    where transformers takes another value than BERT's. `dropouts` are keys of the dropout before
    heads, `fixed` those of which one value is known here, and `others` those without effect.
    """

    kind: str
    classes: str
    traits: Mapping[str, object] = field(default_factory=dict)
    counts: tuple[str, ...] = ("num_segments",)
    weights: Mapping[str, str] = field(default_factory=dict)
    weights_of: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    dropouts: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    def has(self, config: BertConfig) -> bool:
        values = BERTS | self.traits
        return all(getattr(config, name) == value for name, value in values.items()) and all(
            (getattr(config, name) > 0) == (name in self.counts) for name in COUNTS
        )

    def weight(self, name: str, *, model: str) -> str:
        """This family's name of a weight of our `model` that BERT calls `name`."""
        for old, new in (*self.weights_of.get(model, {}).items(), *self.weights.items()):
            name = name.replace(old, new)
        return name

    def key(self, name: str) -> str:
        return self.keys.get(name, name)


COUNTS = ("num_segments", "embedding_size")
BERTS = {
    "shares_layers": False,
    "position_offset": 0,
    "pooler_activation": "tanh",
    "is_causal": False,
}
NO_NEXT_SENTENCE = {"cls.seq_relationship.weight": "", "cls.seq_relationship.bias": ""}

BERT = Family(kind="bert", classes="Bert")
DISTILBERT = Family(
    kind="distilbert",
    classes="DistilBert",
    traits={"pooler_activation": "relu", "layer_norm_epsilon": 1e-12},
    counts=(),
    weights={
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
        **NO_NEXT_SENTENCE,
    },
    keys={
        "attention_probs_dropout_prob": "attention_dropout",
        "hidden_dropout_prob": "dropout",
        "hidden_size": "dim",
        "intermediate_size": "hidden_dim",
        "num_attention_heads": "n_heads",
        "num_hidden_layers": "n_layers",
        "hidden_act": "activation",
    },
    defaults={"n_layers": 6},
    dropouts=("seq_classif_dropout", "qa_dropout"),
    others=("sinusoidal_pos_embds", "tie_weights_"),
)
ALBERT = Family(
    kind="albert",
    classes="Albert",
    traits={"shares_layers": True},
    counts=COUNTS,
    weights={
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
    dropouts=("classifier_dropout_prob",),
    fixed={"num_hidden_groups": 1, "inner_group_num": 1},
    others=(
        *("down_scale_factor", "gap_size", "layers_to_keep", "net_structure_type"),
        "num_memory_blocks",
    ),
)
ROBERTA = Family(
    kind="roberta",
    classes="Roberta",
    traits={"position_offset": 2},
    weights={
        "cls.predictions.transform.dense": "lm_head.dense",
        "cls.predictions.transform.LayerNorm": "lm_head.layer_norm",
        "cls.predictions.": "lm_head.",
        **NO_NEXT_SENTENCE,
    },
    weights_of={
        "BertClassifier": {
            "classifier.weight": "classifier.out_proj.weight",
            "classifier.bias": "classifier.out_proj.bias",
            "pooler.dense": "classifier.dense",
        }
    },
    defaults={"vocab_size": 50_265},
    fixed={"pad_token_id": 1},
)
FAMILIES = {family.kind: family for family in (BERT, DISTILBERT, ALBERT, ROBERTA)}


def family_of(config: BertConfig) -> Family | None:
    """None for an encoder that is of no known family: our own format alone has a place for it."""
    return next((family for family in FAMILIES.values() if family.has(config)), None)

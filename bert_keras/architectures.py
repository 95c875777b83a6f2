"""Lists every model class and every relative of BERT as plain data; other modules read these rows.

`ARCHITECTURES` holds one row for each model class. `FAMILIES` holds one row for each kind of
encoder: BERT and its relatives, which share the class `BertEncoder` under another configuration.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bert_keras.config import BertConfig


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One model class: an encoder with the heads that it trains."""

    name: str  # of the class, as checkpoints state it
    module: str  # that defines the class
    heads: tuple[str, ...] = ()  # the first part of the names of their weights
    is_labelled: bool = False  # whether it has one output for each of its labels
    reads_pooled_output: bool = False  # whether a head does; without one a pooler is not trained
    # What remains in a student with fewer layers and no pooler: the model without the heads that
    # read the pooled output or several layers. "" where all heads remain.
    student: str = ""
    # Its name in a checkpoint format: the end of the class name in Hugging Face's transformers,
    # the task class of KerasHub ("" for the bare backbone). The format cannot hold other models.
    class_names: Mapping[str, str] = field(default_factory=dict)
    exporter: str = ""  # module whose EXPORTER builds its SavedModel; "" where none does


ENCODER = Architecture(
    name="BertEncoder",
    module="bert_keras.models.encoder",
    class_names={"huggingface": "Model", "keras_hub": ""},
    exporter="bert_keras.export.signatures.embeddings",
)
PRETRAINER = Architecture(
    name="BertPretrainer",
    module="bert_keras.models.pretrainer",
    heads=("masked_lm", "next_sentence"),
    reads_pooled_output=True,
    student="BertMaskedLM",
    class_names={"huggingface": "ForPreTraining"},
    exporter="bert_keras.export.signatures.masked_lm",
)
MASKED_LM = Architecture(
    name="BertMaskedLM",
    module="bert_keras.models.pretrainer",
    heads=("masked_lm",),
    class_names={"huggingface": "ForMaskedLM", "keras_hub": "BertMaskedLM"},
    exporter="bert_keras.export.signatures.masked_lm",
)
CLASSIFIER = Architecture(
    name="BertClassifier",
    module="bert_keras.models.task_models",
    heads=("classification",),
    is_labelled=True,
    reads_pooled_output=True,
    student="BertEncoder",
    class_names={"huggingface": "ForSequenceClassification", "keras_hub": "BertTextClassifier"},
    exporter="bert_keras.export.signatures.classifier",
)
TOKEN_CLASSIFIER = Architecture(
    name="BertTokenClassifier",
    module="bert_keras.models.task_models",
    heads=("token_labels",),
    is_labelled=True,
    class_names={"huggingface": "ForTokenClassification"},
    exporter="bert_keras.export.signatures.token_classifier",
)
QUESTION_ANSWERING = Architecture(
    name="BertQuestionAnswering",
    module="bert_keras.models.task_models",
    heads=("span",),
    class_names={"huggingface": "ForQuestionAnswering"},
    exporter="bert_keras.export.signatures.question_answering",
)
MULTIPLE_CHOICE = Architecture(
    name="BertMultipleChoice",
    module="bert_keras.models.task_models",
    heads=("multiple_choice",),
    reads_pooled_output=True,
    student="BertEncoder",
    class_names={"huggingface": "ForMultipleChoice"},
    exporter="bert_keras.export.signatures.multiple_choice",
)
FEATURE_TAGGER = Architecture(
    name="BertFeatureTagger",
    module="bert_keras.models.feature_tagger",
    heads=("tagger",),
    is_labelled=True,
    student="BertEncoder",
)
ARCHITECTURES: dict[str, Architecture] = {
    row.name: row
    for row in (
        *(ENCODER, PRETRAINER, MASKED_LM, CLASSIFIER, TOKEN_CLASSIFIER, QUESTION_ANSWERING),
        *(MULTIPLE_CHOICE, FEATURE_TAGGER),
    )
}


@dataclass(frozen=True, kw_only=True)
class Family:
    """BERT or a relative: what its configuration has in common, and its names in Hugging Face."""

    kind: str  # model_type of config.json, and the prefix of an encoder's weights in task models
    classes: str  # the beginning of its class names in transformers
    # Values of BertConfig that all members have, where they differ from `BERT_TRAITS`.
    traits: Mapping[str, object] = field(default_factory=dict)
    counts: tuple[str, ...] = ("num_segments",)  # which of COUNTS are above 0; the others are 0
    has_pooler: bool = True  # whether the class of the bare encoder has one
    # Names of BERT's weights to this family's: replaced one after another, first those of one
    # model (`weights_of`), then the common ones. A weight that has no name here becomes "".
    weights: Mapping[str, str] = field(default_factory=dict)
    weights_of: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)  # BERT's keys of config.json to its own
    # Its values of absent keys, where transformers has another default than for BERT.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    dropouts: tuple[str, ...] = ()  # keys of the dropout rates before heads
    fixed: Mapping[str, Any] = field(default_factory=dict)  # keys of which one value is supported
    others: tuple[str, ...] = ()  # keys without effect

    def has(self, config: "BertConfig") -> bool:
        """Returns whether an encoder of this configuration is a member."""
        values = {**BERT_TRAITS, **self.traits}
        return all(getattr(config, name) == value for name, value in values.items()) and all(
            (getattr(config, name) > 0) == (name in self.counts) for name in COUNTS
        )

    def weight(self, name: str, *, model: str) -> str:
        """Returns this family's name of the weight of our `model` that BERT calls `name`."""
        for old, new in (*self.weights_of.get(model, {}).items(), *self.weights.items()):
            name = name.replace(old, new)
        return name

    def key(self, name: str) -> str:
        """Returns this family's key for a key of BERT's config.json."""
        return self.keys.get(name, name)


COUNTS = ("num_segments", "embedding_size")
BERT_TRAITS = {
    "shares_layers": False,
    "position_offset": 0,
    "pooler_activation": "tanh",
    "is_causal": False,
}
_NO_NEXT_SENTENCE = {"cls.seq_relationship.weight": "", "cls.seq_relationship.bias": ""}

BERT = Family(kind="bert", classes="Bert")
# Sanh et al. 2019. Its classifier has the pooler, under another name and with ReLU.
DISTILBERT = Family(
    kind="distilbert",
    classes="DistilBert",
    traits={"pooler_activation": "relu", "layer_norm_epsilon": 1e-12},
    counts=(),
    has_pooler=False,
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
        **_NO_NEXT_SENTENCE,
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
# Lan et al. 2019. Its defaults in transformers are those of the size xxlarge.
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
# Liu et al. 2019. Positions count from pad_token_id + 1; the pooler is a part of its classifier.
ROBERTA = Family(
    kind="roberta",
    classes="Roberta",
    traits={"position_offset": 2},
    weights={
        "cls.predictions.transform.dense": "lm_head.dense",
        "cls.predictions.transform.LayerNorm": "lm_head.layer_norm",
        "cls.predictions.": "lm_head.",
        **_NO_NEXT_SENTENCE,
    },
    weights_of={
        CLASSIFIER.name: {
            "classifier.weight": "classifier.out_proj.weight",
            "classifier.bias": "classifier.out_proj.bias",
            "pooler.dense": "classifier.dense",
        }
    },
    defaults={"vocab_size": 50_265},
    fixed={"pad_token_id": 1},
)
FAMILIES: dict[str, Family] = {row.kind: row for row in (BERT, DISTILBERT, ALBERT, ROBERTA)}


def family_of(config: "BertConfig") -> Family | None:
    """Returns the family of an encoder; None where it has none, so that only the native checkpoint
    format can hold it."""
    return next((family for family in FAMILIES.values() if family.has(config)), None)

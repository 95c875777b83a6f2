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

    name: str  # name of the class, which checkpoints store
    module: str  # module that defines the class
    heads: tuple[str, ...] = ()  # first part of the weight names of each head
    is_labelled: bool = False  # whether the model has one output for each of its labels
    # Whether a head reads the pooled output. If no head does, a pooler is not trained.
    reads_pooled_output: bool = False
    # Name of the model of a student that has fewer layers and no pooler. That model omits the heads
    # that read the pooled output or several layers. "" if the student keeps all heads.
    student: str = ""
    # End of the class name by checkpoint format, in transformers and in keras_hub; it begins with
    # the `class_prefix` of the family. A format that is absent here cannot store the model.
    class_names: Mapping[str, str] = field(default_factory=dict)
    # Module whose EXPORTER builds the SavedModel; "" if the model cannot be exported.
    exporter: str = ""


ENCODER = Architecture(
    name="BertEncoder",
    module="bert_keras.models.encoder",
    class_names={"huggingface": "Model", "keras_hub": "Backbone"},
    exporter="bert_keras.exporting.signatures.embeddings",
)
PRETRAINER = Architecture(
    name="BertPretrainer",
    module="bert_keras.models.pretrainer",
    heads=("masked_lm", "next_sentence"),
    reads_pooled_output=True,
    student="BertMaskedLM",
    class_names={"huggingface": "ForPreTraining"},
    exporter="bert_keras.exporting.signatures.masked_lm",
)
MASKED_LM = Architecture(
    name="BertMaskedLM",
    module="bert_keras.models.pretrainer",
    heads=("masked_lm",),
    class_names={"huggingface": "ForMaskedLM", "keras_hub": "MaskedLM"},
    exporter="bert_keras.exporting.signatures.masked_lm",
)
CLASSIFIER = Architecture(
    name="BertClassifier",
    module="bert_keras.models.task_models",
    heads=("classification",),
    is_labelled=True,
    reads_pooled_output=True,
    student="BertEncoder",
    class_names={"huggingface": "ForSequenceClassification", "keras_hub": "TextClassifier"},
    exporter="bert_keras.exporting.signatures.classifier",
)
TOKEN_CLASSIFIER = Architecture(
    name="BertTokenClassifier",
    module="bert_keras.models.task_models",
    heads=("token_labels",),
    is_labelled=True,
    class_names={"huggingface": "ForTokenClassification"},
    exporter="bert_keras.exporting.signatures.token_classifier",
)
QUESTION_ANSWERING = Architecture(
    name="BertQuestionAnswering",
    module="bert_keras.models.task_models",
    heads=("span",),
    class_names={"huggingface": "ForQuestionAnswering"},
    exporter="bert_keras.exporting.signatures.question_answering",
)
MULTIPLE_CHOICE = Architecture(
    name="BertMultipleChoice",
    module="bert_keras.models.task_models",
    heads=("multiple_choice",),
    reads_pooled_output=True,
    student="BertEncoder",
    class_names={"huggingface": "ForMultipleChoice"},
    exporter="bert_keras.exporting.signatures.multiple_choice",
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


def class_names(format: str) -> dict[str, str]:
    """Returns the class name in a checkpoint format for each model that the format can store."""
    return {
        row.name: row.class_names[format]
        for row in ARCHITECTURES.values()
        if format in row.class_names
    }


@dataclass(frozen=True, kw_only=True)
class Family:
    """A kind of encoder: the configuration values of its members and its Hugging Face names.

    The names of weights and config.json keys are those of the transformers library.
    """

    # model_type in config.json; also the prefix of the encoder's weight names in task models.
    kind: str
    class_prefix: str  # start of the class names, such as "DistilBert", also in keras_hub
    # Values of BertConfig fields that all members share and that differ from `BERT_TRAITS`.
    traits: Mapping[str, object] = field(default_factory=dict)
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
        return all(getattr(config, name) == value for name, value in values.items()) and all(
            (getattr(config, name) > 0) == (name in self.sizes) for name in OPTIONAL_SIZES
        )

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
FAMILIES: dict[str, Family] = {row.kind: row for row in (BERT, DISTILBERT, ALBERT, ROBERTA)}


def family_of(config: "BertConfig") -> Family | None:
    """Returns the family of an encoder, or None if it belongs to none.

    Only the native checkpoint format can store an encoder without a family.
    """
    return next((family for family in FAMILIES.values() if family.includes(config)), None)

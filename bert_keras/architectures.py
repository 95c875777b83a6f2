"""Lists every model class as plain data; other modules read these rows.

`ARCHITECTURES` holds one row for each model class. For BERT's relatives see `families`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
# Its class in transformers belongs to ELECTRA alone; see `family.Family.class_names`.
DISCRIMINATOR = Architecture(
    name="BertDiscriminator",
    module="bert_keras.models.discriminator",
    heads=("replaced_token",),
)
# A discriminator and its generator, a BertMaskedLM whose weight names begin with "generator".
REPLACED_TOKENS = Architecture(
    name="BertReplacedTokenPretrainer",
    module="bert_keras.models.replaced_tokens",
    heads=("replaced_token", "generator"),
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
# The weights of its dense layers, if it has any, begin with "sentence"; see EmbeddingConfig.
SENTENCE_ENCODER = Architecture(
    name="BertSentenceEncoder",
    module="bert_keras.models.sentence_encoder",
    exporter="bert_keras.exporting.signatures.embeddings",
)
ARCHITECTURES: dict[str, Architecture] = {
    row.name: row
    for row in (
        *(ENCODER, PRETRAINER, MASKED_LM, DISCRIMINATOR, REPLACED_TOKENS),
        *(CLASSIFIER, TOKEN_CLASSIFIER),
        *(QUESTION_ANSWERING, MULTIPLE_CHOICE, FEATURE_TAGGER, SENTENCE_ENCODER),
    )
}


def class_names(format: str) -> dict[str, str]:
    """Returns the class name in a checkpoint format for each model that the format can store."""
    return {
        row.name: row.class_names[format]
        for row in ARCHITECTURES.values()
        if format in row.class_names
    }

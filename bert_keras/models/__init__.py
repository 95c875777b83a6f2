"""Defines the encoder and the task models; importing it registers their classes with Keras."""

import os

from bert_keras.errors import check_name, suggest_keyword_names
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.feature_tagger import BertFeatureTagger
from bert_keras.models.pretrained import Pretrained
from bert_keras.models.pretrainer import BertMaskedLM, BertPretrainer
from bert_keras.models.replaced_tokens import BertDiscriminator, BertReplacedTokenPretrainer
from bert_keras.models.sentence_encoder import BertSentenceEncoder
from bert_keras.models.task_models import (
    BertClassifier,
    BertMultipleChoice,
    BertQuestionAnswering,
    BertTokenClassifier,
)

MODELS: dict[str, type[Pretrained]] = {
    model.stored_as: model
    for model in (
        BertEncoder,
        BertPretrainer,
        BertMaskedLM,
        BertDiscriminator,
        BertReplacedTokenPretrainer,
        BertClassifier,
        BertTokenClassifier,
        BertQuestionAnswering,
        BertMultipleChoice,
        BertFeatureTagger,
        BertSentenceEncoder,
    )
}


@suggest_keyword_names
def load_model(name_or_folder: str | os.PathLike) -> Pretrained:
    """Loads the model of a checkpoint.

    Args:
        name_or_folder: A folder of any checkpoint format, a name of Hugging Face such as
            "klue/bert-base" or "NAME@REVISION", a preset of KerasHub, or "kaggle://...".

    Returns:
        The model of the class that the checkpoint contains, with `metadata` (model metadata) and
        its `tokenizer`.

    Raises:
        InputError: There is no known checkpoint, or weights are missing, unexpected or of
            another shape.

    Example:

    ```python
    model = load_model("films")
    print(model.metadata.labels)
    ```
    """
    from bert_keras.checkpoints.formats import open_checkpoint

    checkpoint = open_checkpoint(name_or_folder)
    check_name(checkpoint.metadata.model, MODELS, what="model")
    return MODELS[checkpoint.metadata.model].from_checkpoint(
        checkpoint, metadata=checkpoint.metadata, source=name_or_folder
    )

"""Named entity recognition from frozen features (section 5.3, Table 7): a BiLSTM tags words."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

import keras

from bert_keras.architectures import FEATURE_TAGGER
from bert_keras.checkpoints.feature_layers import LAYER_CHOICES, feature_layers
from bert_keras.config import BertConfig
from bert_keras.errors import InputError, check_name
from bert_keras.models.feature_tagger import BertFeatureTagger
from bert_keras.options import check_least
from bert_keras.tasks.ner.encoding import PlacedWords, TaggedWords, WordFeatures
from bert_keras.tasks.ner.feature_cache import stored_features
from bert_keras.tasks.ner.task import NerTask


@dataclass(frozen=True, kw_only=True)
class NerFeaturesTask(NerTask):
    """NerTask without fine-tuning: the vectors of first pieces are computed once and kept, and only
    a two-layer BiLSTM with `lstm_units` a direction is trained, on the `layers` of one of the
    paper's six choices. Its best, dev F1 96.1 with BERT-base, is the default.
    """

    layers: str = "concat-last-four"
    lstm_units: int = 768

    model: ClassVar[str] = FEATURE_TAGGER.name
    freezes_encoder: ClassVar[bool] = True
    rows_type: ClassVar[type[TaggedWords]] = PlacedWords

    def __post_init__(self):
        super().__post_init__()
        check_name(self.layers, LAYER_CHOICES, what="choice of layers")
        check_least(self, 1, "lstm_units")

    def check_encoder(self, config: BertConfig) -> None:
        try:
            feature_layers(self.layers, num_layers=config.num_layers)
        except InputError as error:
            raise InputError(f"{error}; take layers=last or layers=weighted-sum-all") from error

    def trained(self, model: BertFeatureTagger) -> keras.Model:
        return model.tagger

    def prepared(
        self, encoded: TaggedWords, model: BertFeatureTagger, *, folder: Path
    ) -> WordFeatures:
        words = cast(PlacedWords, encoded)
        numbers = model.tagger.read.numbers
        vectors = stored_features(model.encoder, words, numbers=numbers, folder=folder)
        return WordFeatures(words.pieces, words.rows, words.label_ids, words.vocabulary, vectors)


NER_FEATURES_TASK = NerFeaturesTask(name="ner-features", max_length=128)

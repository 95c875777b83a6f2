"""What every task model is: an encoder under heads, with weights that have public names."""

import keras

from bert_keras.config import BertConfig
from bert_keras.distribution import WholeBatchStep
from bert_keras.errors import InputError
from bert_keras.models.encoder import BertEncoder
from bert_keras.models.pretrained import Pretrained


class TaskModel(WholeBatchStep, Pretrained, keras.Model):
    """An encoder and its heads, built when made. Subclasses add heads and `call`, and say with
    `uses_pooler` whether these read the pooled vector; a pooler that nobody reads is not trained.
    """

    uses_pooler = True

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        if self.uses_pooler and not config.has_pooler:
            raise InputError(f"{type(self).__name__} reads the pooled vector; has_pooler is False")
        self.config = config
        self.encoder = BertEncoder(config, dtype=self.dtype_policy)
        if self.encoder.pooler is not None:
            self.encoder.pooler.trainable = self.uses_pooler

    def build(self, input_shape=None):
        self.encoder.build()
        self.build_heads()
        self.built = True

    def build_heads(self) -> None:
        raise AssertionError("a task model builds its heads")

    def get_config(self):
        dtype = keras.dtype_policies.serialize(self.dtype_policy)
        return {"name": self.name, "dtype": dtype, "config": self.config.to_dict()}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(BertConfig.from_dict(config.pop("config")), **config)

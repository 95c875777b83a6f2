"""Defines the base class of models that Keras saves and rebuilds with their BertConfig."""

import keras

from bert_keras.config import BertConfig


class ConfiguredModel(keras.Model):
    """A Keras model whose `get_config` stores its BertConfig and its other arguments."""

    config: BertConfig
    arguments: tuple[str, ...] = ()  # constructor arguments that are also attributes

    def get_config(self):
        return {
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "config": self.config.to_dict(),
            **{name: getattr(self, name) for name in self.arguments},
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        arguments = {**config}
        return cls(BertConfig.from_dict(arguments.pop("config")), **arguments)

"""What every task model is: an encoder under heads, with weights that have public names."""

import keras

from bert_keras.config import BertConfig
from bert_keras.encoder.encoder import BertEncoder


class TaskModel(keras.Model):
    """An encoder and its heads, built when made. Subclasses add heads and `call`."""

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.encoder = BertEncoder(config)

    def build(self, input_shape=None):
        self.encoder.build()
        self.build_heads()
        self.built = True

    def build_heads(self) -> None:
        raise AssertionError("a task model builds its heads")

    def get_config(self):
        return {"name": self.name, "config": self.config.to_dict()}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(BertConfig.from_dict(config.pop("config")), **config)


def named_weights(model: TaskModel) -> dict[str, keras.Variable]:
    """Every weight by its public name, such as `encoder/layer_0/attention/query/kernel`.

    The names are a promise: checkpoints and conversion tables are written in them.
    """
    return {weight.path.removeprefix(f"{model.name}/"): weight for weight in model.weights}

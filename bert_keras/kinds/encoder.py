"""The encoder alone."""

from bert_keras.kinds.kind import Kind


class Encoder(Kind):
    """Hidden states of tokens; an export returns the mean of the states of each text."""

    model = "BertEncoder"
    module = "bert_keras.models.encoder"
    transformers_class = "Model"
    keras_hub_class = "Backbone"
    signatures = "embeddings"

"""Exports trained models as SavedModels that TF Serving loads."""

from bert_keras.errors import require

require("tensorflow", what="a SavedModel")

"""Processes text with TensorFlow ops; the results equal those of `bert_keras.text`."""

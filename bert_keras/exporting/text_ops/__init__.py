"""Processes text with TensorFlow ops, with the same results as `bert_keras.text`."""

"""Graph text processing: `bert_keras.text` as TensorFlow ops, with equal results."""

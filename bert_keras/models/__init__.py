"""Encoder and heads put together; importing this registers every layer with Keras."""

"""Reads and writes the model folders of Hugging Face's transformers."""

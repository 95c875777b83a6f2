"""Reads and writes the TF1 checkpoints of Google's BERT."""

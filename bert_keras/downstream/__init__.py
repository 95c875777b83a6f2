"""Defines the fine-tuning tasks: their files, encodings, labels, predictions and scores."""

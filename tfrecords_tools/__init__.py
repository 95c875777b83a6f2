"""Converts text files to TFRecords of pretraining examples."""

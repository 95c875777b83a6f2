"""Writes record files from a token store."""

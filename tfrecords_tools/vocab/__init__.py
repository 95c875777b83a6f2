"""Learns vocabularies from a corpus."""

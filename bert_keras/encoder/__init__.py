"""Ids to hidden states."""

"""Reads pretraining records, masks their tokens, and groups examples by length."""

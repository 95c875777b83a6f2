"""Reads checkpoints of several formats into arrays by weight name, and writes them."""

"""Weights in and out: a folder of any format to arrays by name, and back."""

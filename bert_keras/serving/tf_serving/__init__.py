"""Measures an exported model and writes the configuration files that start TF Serving with it."""

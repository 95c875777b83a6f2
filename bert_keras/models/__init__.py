"""Defines the encoder and the task models."""

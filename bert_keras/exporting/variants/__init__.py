"""Exports variants of a model that are smaller or faster than float32."""

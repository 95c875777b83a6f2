"""Variants of an exported model that take less space or time, measured against float32."""

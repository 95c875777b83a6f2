"""Hugging Face's folders."""

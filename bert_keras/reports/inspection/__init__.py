"""What goes on inside of a model while it reads a text, as one page to look at."""

from bert_keras.reports.inspection.page import inspect_texts

__all__ = ["inspect_texts"]

"""Scores, curves and errors as pages to look at: one HTML file each, without a network."""

from bert_keras.reports.evaluation import evaluation_page

__all__ = ["evaluation_page"]

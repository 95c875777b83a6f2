"""The command line `bert-keras`."""

from bert_keras.cli.program import main

__all__ = ["main"]

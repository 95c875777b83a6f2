"""The command line `bert-keras`."""

# The help text lists the commands in this order.
from bert_keras.cli import training, tasks, models, listing  # isort: skip
from bert_keras.cli.program import main

__all__ = ["listing", "main", "models", "tasks", "training"]

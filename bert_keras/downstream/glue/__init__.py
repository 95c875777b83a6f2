"""The General Language Understanding Evaluation: nine tasks and a diagnostic set."""

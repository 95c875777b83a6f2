"""The General Language Understanding Evaluation: nine tasks and a diagnostic set."""

from bert_keras.tasks.glue.submission import submission_zip
from bert_keras.tasks.glue.task import GLUE_TASKS, GlueTask

__all__ = ["GLUE_TASKS", "GlueTask", "submission_zip"]

"""Losses, optimizers, schedules, callbacks and the saved states of a run."""

"""Losses, optimizer, schedule, callbacks, checkpoints."""

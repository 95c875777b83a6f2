"""Writes the same records as google-research/bert `create_pretraining_data.py`."""

"""Exports trained models as SavedModels that TF Serving loads."""

"""A trained model as a SavedModel that TF Serving loads."""

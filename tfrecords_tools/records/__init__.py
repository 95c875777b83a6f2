"""The token store in; record files out."""

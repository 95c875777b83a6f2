"""Provides a local server with TF Serving's REST API, a client, and TF Serving's config files."""

"""TF Serving's REST API on this machine, its client, and TF Serving's configuration files."""

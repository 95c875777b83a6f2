"""TF Serving's REST API on this machine: protocol, server, client."""

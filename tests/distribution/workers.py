"""The environments of two workers on this machine."""

import json
import os
import socket


def two_workers() -> list[dict[str, str]]:
    with socket.socket() as first, socket.socket() as second:
        sockets = (first, second)
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    environments = []
    for index in range(2):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environments.append(os.environ | {"TF_CONFIG": json.dumps(task)})
    return environments

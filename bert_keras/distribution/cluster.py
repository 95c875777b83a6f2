"""TF_CONFIG in, who trains and who writes out."""

import json
import os

from bert_keras.errors import InputError


def workers() -> list[str]:
    """Their HOST:PORT; none where there is no TF_CONFIG. Raises InputError where `fit` cannot train
    with what it says."""
    cluster = _tf_config().get("cluster", {})
    return [*cluster.get("chief", []), *cluster.get("worker", [])]


def is_chief() -> bool:
    """Whether this process is the one that writes what a run leaves: alone, or the first worker."""
    config = _tf_config()
    if not config or config["task"]["type"] == "chief":
        return True
    return "chief" not in config["cluster"] and config["task"]["index"] == 0


def _tf_config() -> dict:
    """Raises InputError where it is there and `fit` cannot train with it."""
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return {}
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        place = cluster[task["type"]][task["index"]]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(
            f"TF_CONFIG is {text!r}; expected "
            '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}'
        ) from error
    if "ps" in cluster or task["type"] not in ("chief", "worker"):
        raise InputError(
            f"TF_CONFIG makes this process the {task['type']} {place} of a cluster with a "
            "parameter server or evaluator, which `fit` cannot use; name workers alone, and train "
            "with --strategy multiworker"
        )
    return config

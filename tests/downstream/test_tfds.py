"""Error messages for TFDS builders that cannot be downloaded."""

import logging

import pytest
import requests
import tensorflow_datasets as tfds

from bert_keras.downstream.tfds import tfds_splits
from bert_keras.errors import InputError


def test_failed_downloads_give_a_short_error_message(tmp_path, monkeypatch, caplog):
    def fails(manager, urls):
        logging.getLogger("urllib3.connectionpool").warning("Retrying")
        request = requests.Request("GET", "https://example.org/a/b.txt").prepare()
        raise requests.ConnectionError("HTTPSConnectionPool(...)", request=request)

    monkeypatch.setattr(tfds.download.DownloadManager, "download", fails)
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path))
    message = r"tfds:glue/mrpc is not in the TFDS folder \(.*\) .* downloaded from example.org; "
    with pytest.raises(InputError, match=message):
        tfds_splits("tfds:glue/mrpc")
    assert "Retrying" not in caplog.text
    assert logging.getLogger("urllib3.connectionpool").level == logging.NOTSET

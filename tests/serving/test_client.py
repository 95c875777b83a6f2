"""The client sends instances and returns predictions, or the server's own sentence."""

import pytest

from bert_keras.errors import InputError
from bert_keras.serving.client import predict


def test_predictions(server_of):
    url = f"{server_of('half_plus_two')}/v1/models/half_plus_two"
    assert predict(url, [1.0, 2.0]) == [2.5, 3.0]
    assert predict(f"{url}/versions/124:predict", [{"x": 4}]) == [4.0]
    url = f"{server_of('texty')}/v1/models/texty"
    assert predict(url, [{"v": 3.0}], signature_name="special")[0]["third"] == 1.0


def test_refusals(server_of):
    url = f"{server_of('half_plus_two')}/v1/models/half_plus_two"
    with pytest.raises(InputError, match='answered 400: Serving signature name: "no" not found'):
        predict(url, [1.0], signature_name="no")
    with pytest.raises(InputError, match="answered 404: Not Found"):
        predict(f"{server_of('half_plus_two')}/v2", [1.0])
    with pytest.raises(InputError, match="demo is no URL; expected http://HOST:PORT/v1/models/"):
        predict("demo", [1.0])
    with pytest.raises(InputError, match=r"no server answers at http://127\.0\.0\.1:1/v1"):
        predict("http://127.0.0.1:1/v1/models/m", [1.0])

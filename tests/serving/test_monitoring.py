"""The metrics for Prometheus count requests, their times and their batches."""

import re

from prometheus_client.parser import text_string_to_metric_families

from bert_keras.serving.monitoring import METRICS_PATH, Monitoring


def test_names_and_values():
    monitoring = Monitoring("demo")
    monitoring.count_request("demo", api="predict", status=200, seconds=0.001)
    monitoring.count_request("demo", api="predict", status=400, seconds=0.001)
    for number in range(100):
        monitoring.count_request(f"invented{number}", api="", status=404, seconds=0.001)
    monitoring.count_run(seconds=0.002)
    monitoring.count_batch(3)
    page = monitoring.metrics_text().decode()
    name = ":tensorflow:serving:"
    assert f'{name}request_count{{model_name="demo",status="OK"}} 1.0' in page
    assert f'{name}request_count{{model_name="demo",status="INVALID_ARGUMENT"}} 1.0' in page
    assert f'{name}request_count{{model_name="",status="NOT_FOUND"}} 100.0' in page
    assert "invented" not in page
    labels = 'API="predict",entrypoint="REST",'
    assert f'{name}request_latency_bucket{{{labels}le="+Inf",model_name="demo"}} 1.0' in page
    assert f'{name}request_latency_sum{{{labels[:-1]},model_name="demo"}} 1000.0' in page
    assert (
        f'{name}runtime_latency_count{{API="Predict",model_name="demo",runtime="TF1"}} 1.0' in page
    )
    assert f'{name}batching_session:processed_batch_size_sum{{model_name="demo"}} 3.0' in page


def test_the_page(server_of, send):
    url = server_of("half_plus_three")
    body = '{"instances": [1.0]}'
    assert send(url, "POST", "/v1/models/half_plus_three:predict", body).status == 200
    assert send(url, "POST", "/v1/models/half_plus_three:predict", "").status == 400
    response = send(url, "GET", METRICS_PATH)
    assert (response.status, response.headers["Content-Type"].partition(";")[0]) == (
        200,
        "text/plain",
    )
    counted = re.findall(
        r':tensorflow:serving:request_count\{model_name="half_plus_three",status="(.*?)"\} ',
        response.body.decode(),
    )
    assert {"OK", "INVALID_ARGUMENT"} <= set(counted)


def test_prometheus_can_parse_the_metrics():
    monitoring = Monitoring("demo")
    monitoring.count_request("demo", api="predict", status=200, seconds=0.001)
    families = text_string_to_metric_families(monitoring.metrics_text().decode())
    assert ":tensorflow:serving:request_count" in {family.name for family in families}

"""A model's name and what was measured of it come in; what starts its containers goes out."""

import json
import re

from bert_keras.serving.tf_serving.measured import Measured

IMAGE = "tensorflow/serving:2.20.0"  # its ops are those of bert_keras/export/serving_ops.py
MODELS = "/models"
_CONFIG = "/config"
MONITORING_PATH = "/monitoring/prometheus/metrics"
# Its 8500 is gRPC, its 8501 REST; both open when every model has answered its warm-up requests.
_FLAGS = (
    f"--model_config_file={_CONFIG}/models.config",
    f"--monitoring_config_file={_CONFIG}/monitoring.config",
    "--enable_batching=true",
    f"--batching_parameters_file={_CONFIG}/batching_parameters.txt",
)


def models_file(name: str) -> str:
    """models.config, of one model."""
    return f"""\
model_config_list {{
  config {{
    name: "{name}"
    base_path: "{MODELS}/{name}"
    model_platform: "tensorflow"
    # A new version loads beside the old one, which goes when it answers.
    model_version_policy {{ latest {{ num_versions: 1 }} }}
  }}
}}
"""


def monitoring_file() -> str:
    """monitoring.config, for Prometheus."""
    return f"""\
prometheus_config {{
  enable: true
  path: "{MONITORING_PATH}"
}}
"""


def compose_file(name: str, *, models: str, found: Measured) -> str:
    """compose.yaml; `models` is the path from its folder to saved_models/NAME."""
    flags = "\n".join(f"      - {flag}" for flag in _FLAGS)
    source = json.dumps(models.replace("$", "$$"))
    return f"""\
# TF Serving with {name}. {_memory_told(found)}
services:
  {_dns_name(name)}:
    image: {IMAGE}
    command:
{flags}
    ports:  # this machine only; leave out 127.0.0.1 to answer others too
      - "127.0.0.1:8501:8501"  # REST
      - "127.0.0.1:8500:8500"  # gRPC
    volumes:
      - {{type: bind, source: {source}, target: {MODELS}/{name}, read_only: true}}
      - {{type: bind, source: ., target: {_CONFIG}, read_only: true}}
    healthcheck:  # the image has no curl
      test:
        - CMD
        - bash
        - -c
        - '{health_command(name)}'
      interval: 10s
      timeout: 5s
      start_period: {_start_seconds(found)}s  # loaded and warm after {found.warm:.1f} s
    deploy:
      resources:
        limits:
          memory: {_limit(found)}M
    restart: unless-stopped
"""


def health_command(name: str, *, port: int = 8501) -> str:
    """A line of bash that fails where no version of the model answers."""
    request = rf"GET /v1/models/{name} HTTP/1.0\r\n\r\n"
    return f'exec 3<>/dev/tcp/127.0.0.1/{port} && printf "{request}" >&3 && grep -qw AVAILABLE <&3'


def kubernetes_file(name: str, *, found: Measured, config: dict[str, str]) -> str:
    """kubernetes.yaml: a Deployment, its Service and a ConfigMap with the files of `config`."""
    own = _dns_name(name)
    files = "".join(f"  {file}: |\n{_indented(text)}" for file, text in config.items())
    threads = f"--tensorflow_intra_op_parallelism={found.num_cores}"
    flags = "\n".join(f"            - {flag}" for flag in (*_FLAGS, threads))
    return f"""\
# TF Serving with {name}. {_memory_told(found)}
# The volume claim saved-models is yours to make; it holds what saved_models/ does: {name}/1, ...
apiVersion: v1
kind: ConfigMap
metadata:
  name: {own}
data:
{files}---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {own}
spec:
  replicas: 1
  selector:
    matchLabels: {{app: {own}}}
  template:
    metadata:
      labels: {{app: {own}}}
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "8501"
        prometheus.io/path: {MONITORING_PATH}
    spec:
      containers:
        - name: serving
          image: {IMAGE}
          args:
{flags}
          ports:
            - {{name: grpc, containerPort: 8500}}
            - {{name: rest, containerPort: 8501}}
          readinessProbe:  # the port opens when the model is warm, there {found.warm:.1f} s
            httpGet: {{path: /v1/models/{name}, port: rest}}
          resources:
            requests: {{cpu: "{found.num_cores}", memory: {_mebibytes(found.peak)}Mi}}
            limits: {{memory: {_limit(found)}Mi}}
          volumeMounts:
            - {{name: models, mountPath: {MODELS}, readOnly: true}}
            - {{name: config, mountPath: {_CONFIG}, readOnly: true}}
      volumes:
        - name: models
          persistentVolumeClaim: {{claimName: saved-models, readOnly: true}}
        - name: config
          configMap: {{name: {own}}}
---
apiVersion: v1
kind: Service
metadata:
  name: {own}
spec:
  selector: {{app: {own}}}
  ports:
    - {{name: grpc, port: 8500, targetPort: grpc}}
    - {{name: rest, port: 8501, targetPort: rest}}
"""


def _dns_name(name: str) -> str:
    """What Kubernetes takes: small letters, digits and hyphens."""
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")


def _indented(text: str) -> str:
    return "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())


def _start_seconds(found: Measured) -> int:
    return 10 + round(3 * found.warm)


def _memory_told(found: Measured) -> str:
    return (
        f"Measured where it was exported: {_mebibytes(found.before)} MiB\n"
        f"# of memory without the model, at most {_mebibytes(found.peak)} MiB with it."
    )


def _limit(found: Measured) -> int:
    """MiB; while a new version takes over, two are loaded."""
    return _mebibytes(2 * found.peak - found.before)


def _mebibytes(num_bytes: int) -> int:
    return -(-num_bytes // 2**20)

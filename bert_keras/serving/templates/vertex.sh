#!/usr/bin/env bash
# Builds an image with {{ name }}, pushes it to Artifact Registry and uploads it to Vertex AI as a
# model with a custom container. For example:
#   PROJECT=my-project REGION=europe-west4 REPOSITORY=models bash vertex.sh
set -euo pipefail
cd "$(dirname "$0")"
image="$REGION-docker.pkg.dev/$PROJECT/$REPOSITORY/{{ dns_name }}:latest"

docker build --platform linux/amd64 --file Dockerfile --tag "$image" {{ parent }}
docker push "$image"
gcloud ai models upload \
  --project="$PROJECT" \
  --region="$REGION" \
  --display-name={{ dns_name }} \
  --container-image-uri="$image" \
  --container-ports=8501 \
  --container-health-route=/v1/models/{{ name }} \
  --container-predict-route=/v1/models/{{ name }}:predict

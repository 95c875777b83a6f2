"""Protobuf messages that TF Serving's Python package omits, from their .proto files (2.20.0):
servables/tensorflow/session_bundle_config.proto and config/monitoring_config.proto."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2

_FIELD = descriptor_pb2.FieldDescriptorProto
_INT64, _BOOL = ".google.protobuf.Int64Value", ".google.protobuf.BoolValue"


def _field(name, number, kind, *, repeated=False):
    label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
    if isinstance(kind, str):
        return _FIELD(
            name=name, number=number, label=label, type=_FIELD.TYPE_MESSAGE, type_name=kind
        )
    return _FIELD(name=name, number=number, label=label, type=kind)


_FIELDS = {
    "BatchingParameters": [
        _field("max_batch_size", 1, _INT64),
        _field("batch_timeout_micros", 2, _INT64),
        _field("max_enqueued_batches", 3, _INT64),
        _field("num_batch_threads", 4, _INT64),
        _field("allowed_batch_sizes", 6, _FIELD.TYPE_INT64, repeated=True),
        _field("pad_variable_length_inputs", 7, _FIELD.TYPE_BOOL),
        _field("enable_large_batch_splitting", 8, _BOOL),
        _field("max_execution_batch_size", 9, _INT64),
    ],
    "PrometheusConfig": [
        _field("enable", 1, _FIELD.TYPE_BOOL),
        _field("path", 2, _FIELD.TYPE_STRING),
    ],
    "MonitoringConfig": [_field("prometheus_config", 1, ".tensorflow.serving.PrometheusConfig")],
}


def message(name):
    """Returns an empty message of TF Serving."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto(
        name="config.proto",
        package="tensorflow.serving",
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
        message_type=[
            descriptor_pb2.DescriptorProto(name=each, field=fields)
            for each, fields in _FIELDS.items()
        ],
    )
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindMessageTypeByName(f"tensorflow.serving.{name}")
    return message_factory.GetMessageClass(descriptor)()

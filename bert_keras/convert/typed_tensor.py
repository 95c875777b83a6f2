"""An array that is still in its file, with the type that it has there."""

from dataclasses import dataclass

from bert_keras.convert.checkpoint import StoredTensor


@dataclass(frozen=True)
class TypedTensor(StoredTensor):
    """`dtype` is NumPy's name of it, such as "float16"; `read` brings float32 all the same."""

    dtype: str

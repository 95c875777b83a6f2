"""Refuses SavedModels with ops that the oldest supported TF Serving, 2.20, lacks.

The file serving_ops_2_20.txt lists the ops that TensorFlow 2.20 and tensorflow-text 2.20 register.
TF Serving 2.20 is built from these two. The list omits the three ops that call Python. This command
writes the list in an environment with the two packages:

    python -c "
    import tensorflow, tensorflow_text
    from tensorflow.core.framework.op_def_pb2 import OpList
    from tensorflow.python.client.pywrap_tf_session import TF_GetAllOpList, TF_GetBuffer
    ops = OpList.FromString(TF_GetBuffer(TF_GetAllOpList())).op
    print(*sorted(op.name for op in ops if 'PyFunc' not in op.name), sep='\\n')"
"""

import os
from importlib.resources import files
from pathlib import Path

from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from bert_keras.errors import InputError


def served_ops() -> frozenset[str]:
    """Returns the names of the ops that a graph can contain."""
    return frozenset((files("bert_keras.exporting") / "serving_ops_2_20.txt").read_text().split())


def check_ops(folder: str | os.PathLike) -> None:
    """Raises InputError if the graph of a SavedModel contains an op that `served_ops` lacks.

    Args:
        folder: The folder of the SavedModel.
    """
    saved_model = SavedModel.FromString((Path(folder) / "saved_model.pb").read_bytes())
    # TensorFlow lists the ops of the graph and of its functions when it saves them.
    used = {
        op.name
        for meta_graph in saved_model.meta_graphs
        for op in meta_graph.meta_info_def.stripped_op_list.op
    }
    if refused := sorted(used - served_ops()):
        raise InputError(
            f"the graph contains {', '.join(refused)}, which TF Serving 2.20 does not have; "
            "build the model without these ops"
        )

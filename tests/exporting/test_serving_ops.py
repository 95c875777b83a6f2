import pytest
import tensorflow as tf

from bert_keras.errors import InputError
from bert_keras.exporting.serving_ops import check_ops, served_ops


def saved(folder, function, signature):
    module = tf.Module()
    module.function = tf.function(function, input_signature=[signature])
    tf.saved_model.save(module, str(folder), signatures=module.function)
    return folder


def test_the_list_has_text_ops_and_no_ops_that_call_python():
    assert {"MatMul", "RegexSplitWithOffsets", "WordpieceTokenizeWithOffsets"} <= served_ops()
    assert not {"PyFunc", "EagerPyFunc", "PyFuncStateless", "DecodeJxl"} & served_ops()


def test_ops_of_the_server_are_accepted(tmp_path):
    check_ops(saved(tmp_path, lambda x: {"y": x + 1}, tf.TensorSpec([None])))


def test_an_op_that_the_server_lacks_is_refused(tmp_path):
    def decode(image):
        return {"image": tf.raw_ops.DecodeJxl(contents=image)}

    with pytest.raises(
        InputError, match=r"contains DecodeJxl, which TF Serving 2\.20 does not have"
    ):
        check_ops(saved(tmp_path, decode, tf.TensorSpec([], tf.string)))

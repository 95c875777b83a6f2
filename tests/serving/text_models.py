"""A small SavedModel with the signatures of a sentence encoder."""

import tensorflow as tf


def embedder(folder, *, has_counts=True):
    """A SavedModel with an embedding of four numbers for each text: counts of letters."""

    def count(text, letter):
        return tf.cast(
            tf.strings.length(tf.strings.regex_replace(text, f"[^{letter}]", "")), "float32"
        )

    class Embedder(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def embed(self, text):
            vectors = tf.stack([1 + count(text, letter) for letter in "abcd"], axis=1)
            vectors /= tf.where(text == "zero", 0.0, 1.0)[:, None]
            return {"embedding": tf.math.l2_normalize(vectors, axis=1), "pooled": vectors}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def count(self, text):
            words = tf.strings.split(text).row_lengths()
            return {"num_tokens": tf.cast(words, tf.int32) + 2}

    module = Embedder()
    signatures = {"serving_default": module.embed}
    if has_counts:
        signatures["num_tokens"] = module.count
    tf.saved_model.save(module, folder, signatures)

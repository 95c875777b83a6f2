"""Compares the hidden states of the mixed precision policies with float32, with trained weights."""

import argparse
from pathlib import Path

import numpy as np
from keras import ops

from bert_keras import BertEncoder

TEXT = Path(__file__).resolve().parents[1] / "LICENSE"
LENGTHS = (8, 20, 50, 128)  # tokens of each row; shorter rows are padded


def batch(encoder: BertEncoder) -> dict[str, np.ndarray]:
    tokenizer = encoder.tokenizer
    tokens, vocabulary = tokenizer.encode(TEXT.read_text()).ids, tokenizer.vocabulary
    mask = (np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]).astype("int32")
    ids = np.zeros_like(mask)
    for row, length in enumerate(LENGTHS):
        inner = tokens[500 * row : 500 * row + length - 2]
        ids[row, :length] = [vocabulary.cls_id, *inner, vocabulary.sep_id]
    return {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(mask)}


def hidden_states(encoder: BertEncoder, inputs: dict) -> list[np.ndarray]:
    states = encoder.states(inputs).hidden_states
    return [ops.convert_to_numpy(ops.cast(state, "float32")) for state in states]


def sentence_vectors(state_BTD: np.ndarray, mask: np.ndarray) -> np.ndarray:
    means = (state_BTD * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="a checkpoint with its vocabulary")
    exact_encoder = BertEncoder.from_pretrained(parser.parse_args().folder)
    inputs = batch(exact_encoder)
    mask, exact = inputs["input_mask"], hidden_states(exact_encoder, inputs)
    real = mask == 1
    print("max |difference| / max |value| of the embeddings and each layer; least cosine")
    for policy in ("mixed_bfloat16", "mixed_float16"):
        encoder = BertEncoder(exact_encoder.config, dtype=policy)
        encoder.build()
        encoder.set_weights(exact_encoder.get_weights())
        states = hidden_states(encoder, inputs)
        differences = " ".join(
            f"{np.abs(ours[real] - theirs[real]).max() / np.abs(theirs[real]).max():.1e}"
            for ours, theirs in zip(states, exact, strict=True)
        )
        vectors = [sentence_vectors(each[-1], mask) for each in (states, exact)]
        print(f"{policy:<16}{differences}   {np.prod(vectors, axis=0).sum(1).min():.6f}")


if __name__ == "__main__":
    main()

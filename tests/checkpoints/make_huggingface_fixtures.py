"""transformers makes and saves a tiny model of each class; what they answer goes beside.

python tests/checkpoints/make_huggingface_fixtures.py FOLDER

FOLDER gets one folder a class, as `save_pretrained` of model and tokenizer leaves it, and its
golden.npz: `inputs/` and the outputs by transformers' names. Some differ in more than the class:
pretraining is cut into shards, question_answering stored in half precision, token_labels cased.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import transformers

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghi", "##a", "##b"]
SIZES = {
    "vocab_size": len(TOKENS),
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 10,
    "type_vocab_size": 2,
}
LABELS = {0: "no", 1: "yes", 2: "perhaps"}
CLASSES = {
    "encoder": ("BertModel", {"output_hidden_states": True}),
    "pretraining": ("BertForPreTraining", {"hidden_act": "gelu_new"}),
    "masked_lm": ("BertForMaskedLM", {"hidden_act": "relu"}),
    "classification": ("BertForSequenceClassification", {"id2label": LABELS}),
    "token_labels": ("BertForTokenClassification", {"id2label": LABELS, "layer_norm_eps": 1e-5}),
    "question_answering": ("BertForQuestionAnswering", {}),
    "multiple_choice": ("BertForMultipleChoice", {}),
}
LENGTH, NUM_CHOICES = 9, 2


def main(folder: Path) -> None:
    for seed, (name, (kind, changes)) in enumerate(CLASSES.items()):
        random = torch.manual_seed(seed)  # for the weights that transformers draws as well
        model = getattr(transformers, kind)(transformers.BertConfig(**SIZES | changes)).eval()
        draw(model, random)
        if name == "question_answering":
            model.half()
        shard = "2KB" if name == "pretraining" else "1GB"
        model.save_pretrained(folder / name, max_shard_size=shard)
        vocabulary = {token: number for number, token in enumerate(TOKENS)}
        transformers.BertTokenizer(
            vocabulary, do_lower_case=name != "token_labels", model_max_length=LENGTH
        ).save_pretrained(folder / name)
        inputs = batch(random)
        if name == "multiple_choice":
            inputs = {key: torch.stack([ids, ids.flip(0)], dim=1) for key, ids in inputs.items()}
        with torch.no_grad():
            outputs = model.float()(**inputs).to_tuple()
        save(folder / name, inputs, outputs)


def draw(model: torch.nn.Module, random: torch.Generator) -> None:
    """Biases, gamma and beta must count as well."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=random))


def batch(random: torch.Generator) -> dict[str, torch.Tensor]:
    real = torch.tensor([LENGTH, 6, 3])
    mask = (torch.arange(LENGTH) < real[:, None]).long()
    return {
        "input_ids": torch.randint(0, len(TOKENS), mask.shape, generator=random) * mask,
        "attention_mask": mask,
        "token_type_ids": torch.randint(0, 2, mask.shape, generator=random),
    }


def save(folder: Path, inputs: dict, outputs: tuple) -> None:
    arrays = {f"inputs/{name}": ids.numpy().astype("int32") for name, ids in inputs.items()}
    flat = [a for output in outputs for a in (output if isinstance(output, tuple) else (output,))]
    arrays |= {f"outputs/{number}": tensor.numpy() for number, tensor in enumerate(flat)}
    np.savez_compressed(folder / "golden.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

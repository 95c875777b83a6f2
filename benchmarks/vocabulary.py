"""Scores masked-LM models with different vocabularies by their held-out loss per character.

Whole words are masked, 15 % of the tokens, so that models with long and with short subwords predict
the same kind of text. Predictions of [UNK] are not counted. The records are held-out plain ids.

    python benchmarks/vocabulary.py runs/old/model=domain runs/new/model=domain-extended
"""

import argparse

from leaderboard import characters_per_token
from pretraining import REFERENCE

from bert_keras.data.masking import Masker, MaskingPolicy
from bert_keras.data.objectives import DynamicMasking, PretrainingExamples, masked
from bert_keras.data.records import Records
from bert_keras.models.pretrainer import BertMaskedLM
from bert_keras.runs.pretrain_inputs import PretrainInputs
from bert_keras.runs.pretraining_tasks import evaluate_pretrainer, pretraining_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="+", metavar="MODEL=RECORDS")
    print("| model | tokens of the held-out text | loss per token | nats per character |")
    print("|---|---|---|---|")
    for pair in parser.parse_args().pairs:
        model, records = pair.split("=")
        inputs = PretrainInputs(REFERENCE, records=records)
        unk_id = inputs.vocabulary.unk_id

        def known(features, unk_id=unk_id):
            inputs, targets, weights = masked(features)
            is_known = targets["masked_lm"] != unk_id
            return inputs, targets, {"masked_lm": weights["masked_lm"] * is_known}

        masker = Masker(MaskingPolicy(unit="word"), inputs.vocabulary)
        batches = Records(inputs.held_out_files).batches(
            batch_size=128,
            drop_remainder=False,
            masking=DynamicMasking(masker, seed=1),
            objective=PretrainingExamples(known),
        )
        scores = evaluate_pretrainer(
            BertMaskedLM.from_pretrained(model), batches, task=pretraining_task("masked-lm")
        )
        loss = scores["held_out_masked_lm_loss"]
        tokens = sum(int(features["input_mask"].sum()) for features, _, _ in batches)
        per_character = loss / characters_per_token(batches, inputs.vocabulary)
        print(f"| `{model}` | {tokens:,} | {loss:.3f} | {per_character:.3f} |", flush=True)


if __name__ == "__main__":
    main()

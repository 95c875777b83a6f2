import dataclasses

import numpy as np
import pytest

from bert_keras.checkpoints.checkpoint import TrainingState
from bert_keras.checkpoints.conversion import convert
from bert_keras.checkpoints.extension import extended, subtoken_ids
from bert_keras.checkpoints.formats import open_checkpoint, write_checkpoint
from bert_keras.cli import main
from bert_keras.errors import InputError
from bert_keras.models import MODELS
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

PAD, *OTHERS = SPECIAL_TOKENS
LETTERS = (*"abcdef", "##a", "##b", "##bc", "##c", "##d", "##f")
VOCABULARY = Vocabulary((PAD, "[unused0]", "[unused1]", *OTHERS, *LETTERS))
IDS = VOCABULARY.ids
TABLES = ("encoder/embeddings/token", "masked_lm/output_bias", "masked_lm/decoder")


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("BertPretrainer", {}),
        ("BertMaskedLM", {"ties_decoder": False, "has_pooler": False}),
        ("BertPretrainer", {"embedding_size": 6, "shares_layers": True}),
        ("BertClassifier", {}),
        ("BertSentenceEncoder", {}),
        ("BertDiscriminator", {"embedding_size": 6, "has_pooler": False}),
    ],
)
def test_new_rows_are_the_means_of_the_former_subtokens(checkpoint, model, changes):
    original = checkpoint(model, vocabulary=VOCABULARY, **changes)
    new = extended(original, ["abc", "cab", "##bd", "x"])
    assert new.vocabulary.tokens == (PAD, "abc", "cab", *OTHERS, *LETTERS, "##bd", "x")
    assert new.metadata.config.vocab_size == len(new.vocabulary) == len(VOCABULARY) + 2
    former = {1: ("a", "##bc"), 2: ("c", "##a", "##b"), -2: ("##b", "##d"), -1: ("[UNK]",)}
    assert set(new.tensors) == set(original.tensors)
    for name, tensor in new.tensors.items():
        before, after = original.tensors[name].read(), tensor.read()
        assert after.shape == tensor.shape
        if name not in TABLES:
            np.testing.assert_array_equal(after, before, name)
            continue
        kept = [n for n in range(len(VOCABULARY)) if n not in former]
        np.testing.assert_array_equal(after[kept], before[kept], name)
        for row, tokens in former.items():
            mean = before[[IDS[token] for token in tokens]].mean(axis=0)
            np.testing.assert_array_equal(after[row], mean, name)


def test_other_tokens_keep_their_ids_and_texts_without_new_tokens_their_logits(checkpoint):
    original = checkpoint("BertMaskedLM", vocabulary=VOCABULARY)
    new = extended(original, ["cab", "fed", "dad"])
    models = [
        MODELS["BertMaskedLM"].from_checkpoint(each, metadata=each.metadata, source="a test")
        for each in (original, new)
    ]
    texts = ["ab ba", "cab fed a"]
    old_ids, ids = original.tokenizer.ids_batch(texts), new.tokenizer.ids_batch(texts)
    assert old_ids[0] == ids[0] and ids[1] == [1, 2, IDS["a"]]
    inputs = {"input_ids": np.array([ids[0]])}
    inputs |= {"input_mask": np.ones_like(inputs["input_ids"])}
    inputs |= {"segment_ids": 0 * inputs["input_ids"], "masked_lm_positions": np.array([[1, 2]])}
    old_logits, logits = (np.asarray(model(inputs)["masked_lm"]) for model in models)
    np.testing.assert_allclose(logits[..., 3:-1], old_logits[..., 3:], rtol=0, atol=1e-6)


def test_subtokens_are_those_of_the_tokenizer():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    for word in ("abc", "cab", "abcd", "fff", "ax", "x", "ade", "bcbc"):
        assert subtoken_ids(word, VOCABULARY) == tokenizer.encode(word).ids
    assert subtoken_ids("##bcd", VOCABULARY) == [IDS["##bc"], IDS["##d"]]
    assert subtoken_ids("##ad#", VOCABULARY) == [VOCABULARY.unk_id]


@pytest.mark.parametrize("format", ["bert-keras", "huggingface", "google", "keras-hub"])
def test_the_command_extends_into_every_format(checkpoint, tmp_path, capsys, format):
    original = checkpoint("BertMaskedLM", vocabulary=VOCABULARY)
    state = TrainingState(step=7, momentums=original.tensors, velocities=original.tensors)
    write_checkpoint(
        dataclasses.replace(original, state=state), tmp_path / "old", format="bert-keras"
    )
    (tmp_path / "new.txt").write_text("[MASK]\na\ncab\nx\nxy\n##bd\n")
    paths = [str(tmp_path / name) for name in ("old", "new")]
    command = ["convert", *paths, "--to", format, "--extend-vocabulary", str(tmp_path / "new.txt")]
    assert main(command) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  note")]
    assert [note.split("note")[1].strip() for note in notes[:4]] == [
        "4 new tokens, 2 of them instead of [unusedN]",
        "the vocabulary has already 2 of the tokens: [MASK], a",
        "[UNK] is among the former subtokens of 2 of the tokens: x, xy",
        "the training state is left out, because it has no averages of new tokens",
    ]
    new = open_checkpoint(tmp_path / "new")
    assert new.vocabulary.tokens == (PAD, "cab", "x", *OTHERS, *LETTERS, "xy", "##bd")
    assert new.state is None
    for name, tensor in extended(original, ["cab", "x", "xy", "##bd"]).tensors.items():
        np.testing.assert_array_equal(new.tensors[name].read(), tensor.read(), name)


@pytest.mark.extra
def test_transformers_reads_the_extended_model_with_its_tokens(checkpoint, tmp_path):
    transformers = pytest.importorskip("transformers", reason='needs "bert-keras[parity]"')
    write_checkpoint(
        checkpoint("BertMaskedLM", vocabulary=VOCABULARY), tmp_path / "old", format="bert-keras"
    )
    convert(
        tmp_path / "old", tmp_path / "new", format="huggingface", new_tokens=["cab", "fed", "bad"]
    )
    new = open_checkpoint(tmp_path / "new")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "new")
    ids = tokenizer("a cab, bad fed", return_tensors="pt")
    expected = new.tokenizer.encode("a cab, bad fed").ids
    assert ids["input_ids"][0, 1:-1].tolist() == expected and 1 in expected
    model = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "new").eval()
    ours = MODELS["BertMaskedLM"].from_checkpoint(new, metadata=new.metadata, source="a test")
    arrays = {name: tensor.numpy() for name, tensor in ids.items()}
    inputs = {"input_ids": arrays["input_ids"], "input_mask": arrays["attention_mask"]}
    inputs["segment_ids"] = arrays["token_type_ids"]
    inputs["masked_lm_positions"] = np.arange(arrays["input_ids"].shape[1])[None]
    np.testing.assert_allclose(
        np.asarray(ours(inputs)["masked_lm"]),
        model(**ids).logits.detach().numpy(),
        rtol=0,
        atol=2e-5,
    )


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["cab", ""], "the new token '' is blank or contains white space; write one word on"),
        (["a b"], "the new token 'a b' is blank or contains white space"),
        ([" ab"], "the new token ' ab' is blank or contains white space"),
        (["cab", "cab"], "the new token 'cab' is given twice; remove one of them"),
        (["Cab"], "no text contains the new token 'Cab': the tokenizer makes 'cab' of 'Cab'; "),
        (["é"], "no text contains the new token 'é': the tokenizer makes 'e' of 'é'; "),
        (["[E1]"], "no text contains the new token '[E1]': the tokenizer makes '[ e1 ]' of '[E1]"),
        (["##-a"], "no text contains the new token '##-a': the tokenizer makes 'a - a' of 'a-a'"),
        (["##"], "no text contains the new token '##': the tokenizer makes 'a' of 'a'"),
        (["\u200b"], "no text contains the new token '\\u200b': the tokenizer removes it; write"),
        (["[CLS]", "a"], "the vocabulary has all new tokens already; expected at least one other"),
        (["a" * 201], "no text contains the new token 'aaa"),
    ],
)
def test_tokens_that_never_occur_are_refused(checkpoint, tokens, message):
    with pytest.raises(InputError) as error:
        extended(checkpoint("BertEncoder", vocabulary=VOCABULARY), tokens)
    assert message in str(error.value)


def test_a_cased_vocabulary_takes_capitals_and_accents(checkpoint):
    original = checkpoint("BertEncoder", vocabulary=VOCABULARY)
    cased = dataclasses.replace(
        original, metadata=dataclasses.replace(original.metadata, lowercase=False)
    )
    assert extended(cased, ["É"]).tokenizer.encode("É").ids == [1]


def test_other_tokenizers_are_refused_in_one_sentence(checkpoint, tmp_path, capsys):
    rules = dataclasses.replace(VOCABULARY, rules="{}")
    with pytest.raises(InputError, match="has a byte-level BPE or Unigram tokenizer, whose"):
        extended(checkpoint("BertEncoder", vocabulary=rules), ["cab"])
    write_checkpoint(checkpoint("BertEncoder"), tmp_path / "old", format="bert-keras")
    (tmp_path / "new.txt").write_text("a cab\n")
    command = ["convert", str(tmp_path / "old"), str(tmp_path / "new")]
    assert main([*command, "--extend-vocabulary", str(tmp_path / "new.txt")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "the new token 'a cab' is blank or contains white space" in line
    assert not (tmp_path / "new").exists()

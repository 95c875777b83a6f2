"""Fixtures of all tests: quiet TensorFlow, a fixed seed, a small vocabulary, the shared data."""

import gc
import importlib.util
import json
import os
from pathlib import Path

import pytest
import tokenizers
from sentencepiece import SentencePieceTrainer
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

from tests.multilingual_texts import DECOMPOSED, SENTENCES

HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a mistyped folder is asked of nobody
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_DETERMINISTIC_OPS", "1")  # as `bert-keras` has it on a CPU
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # the same
os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "false")  # writes to the home folder


if os.environ.get("KERAS_BACKEND") == "jax":  # for tests of several devices
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")


def pytest_configure(config):
    """Loads TensorFlow with four logical CPUs, except in the process that distributes tests."""
    if getattr(config.option, "numprocesses", None) or not HAS_TENSORFLOW:
        return
    import tensorflow as tf

    tf.config.set_logical_device_configuration(  # for strategies; all else runs on the first
        tf.config.list_physical_devices("CPU")[0], 4 * [tf.config.LogicalDeviceConfiguration()]
    )
    gc.freeze()  # TensorFlow's modules are not searched for garbage again and again
    gc.set_threshold(100_000, 20, 50)


def pytest_runtest_setup():
    """Separates the sums of each test's strategies, which would collide in one process."""
    if HAS_TENSORFLOW:
        import tensorflow as tf

        tf.distribute.MirroredStrategy._collective_key_base += 100


SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture
def shared_data() -> Path:
    """Real corpora and task files, if they are next to the checkout."""
    if not SHARED_DATA.is_dir():
        pytest.skip("needs ../shared/data, real corpora and task files beside the checkout")
    return SHARED_DATA


@pytest.fixture(scope="session")
def subwords(tmp_path_factory) -> dict[str, Path]:
    """Folders as the tokenizers of BERT's relatives were published: vocab.json with merges.txt,
    tokenizer.json or a SentencePiece model, of the license's text; those in `layouts` and mmBERT's
    also of other languages."""
    folder, root = tmp_path_factory.mktemp("subwords"), Path(__file__).resolve().parents[1]
    lines = [line for line in (root / "LICENSE").read_text("utf-8").split("\n") if line]
    lines += 9 * ["1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 2, 3, 5, 7, 1,"]
    names = ("roberta", "albert", "modernbert", "mmbert")
    names += ("xlm-roberta", "camembert", "kobert", "deberta-v2")
    folders = {name: folder / name for name in names}
    for each in folders.values():
        each.mkdir()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.model.save(str(folders["roberta"]))
    SentencePieceTrainer.train(
        sentence_iterator=(line.lower() for line in lines),
        model_prefix=str(folders["albert"] / "spiece"),
        vocab_size=400,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        minloglevel=2,
    )
    modern_tokenizer(lines).save(str(folders["modernbert"] / "tokenizer.json"))
    gemma_tokenizer([*lines, *SENTENCES]).save(str(folders["mmbert"] / "tokenizer.json"))
    (folders["camembert"] / "config.json").write_text('{"model_type": "camembert"}', "utf-8")
    kobert = {"unk_id": 0, "pad_id": 1, "bos_id": -1, "eos_id": -1}
    kobert |= {"unk_piece": "[UNK]", "pad_piece": "[PAD]"}
    kobert |= {"control_symbols": ["[CLS]", "[SEP]", "[MASK]"]}
    deberta = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}  # [MASK] is added later
    deberta |= {"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]"}
    layouts = {"xlm-roberta/sentencepiece.bpe": {}, "kobert/spiece": kobert}
    layouts["camembert/sentencepiece.bpe"] = {}
    layouts["deberta-v2/spm"] = deberta | {"unk_piece": "[UNK]"}
    for prefix, layout in layouts.items():
        SentencePieceTrainer.train(
            sentence_iterator=iter([*lines, *3 * SENTENCES]),
            model_prefix=str(folder / prefix),
            vocab_size=900,
            hard_vocab_limit=False,
            minloglevel=2,
            **layout,
        )
    return folders


@pytest.fixture(scope="session")
def klue_tokens() -> list[str]:
    """A cased WordPiece vocabulary in the layout of klue/roberta-base: [CLS] is 0, [PAD] is 1."""
    words = sorted({word for sentence in SENTENCES for word in sentence.split()})
    letters = sorted({letter for word in words for letter in word})
    tokens = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *letters]
    return list(dict.fromkeys([*tokens, *(f"##{each}" for each in letters), *words[::3]]))


@pytest.fixture(scope="session")
def vocabulary_of(subwords, klue_tokens):
    """A function that returns a vocabulary in the layout of a relative's, by a name of CHANGES."""
    from bert_keras.checkpoints.huggingface.tokenizer import read_tokenizer_json
    from bert_keras.text.fast_tokenizer import rules_vocabulary
    from bert_keras.text.vocab import SPECIAL_TOKENS, Vocabulary

    def make(name: str) -> Vocabulary:
        if name in subwords:
            return rules_vocabulary(read_tokenizer_json(subwords[name], {}))
        if name == "klue-roberta":
            return Vocabulary(klue_tokens)
        if name in ("klue-bert", "koelectra"):
            return Vocabulary(tuple(dict.fromkeys([*SPECIAL_TOKENS, *klue_tokens])))
        if name == "multilingual-bert":
            return Vocabulary(multilingual_tokens())
        if name == "mpnet":
            specials = ("<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>")
            return Vocabulary.of_wordpiece((*specials, "good", "bad", "film", *klue_tokens[5:]))
        return Vocabulary((*SPECIAL_TOKENS, "the", "license", "good", "bad", "film", "a", "##s"))

    return make


def multilingual_tokens() -> list[str]:
    """Learns a cased WordPiece vocabulary in the layout of bert-base-multilingual-cased: [PAD],
    [unused1] to [unused99], [UNK], [CLS], [SEP], [MASK]."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", *(f"[unused{number}]" for number in range(1, 100))]
    special += ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=2000, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator([*SENTENCES, *DECOMPOSED], trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def modern_tokenizer(lines: list[str]):
    """Returns a tokenizer in the layout of ModernBERT's, which comes from GPT-NeoX: bytes
    that occur in no text have no token, and runs of spaces are added tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000, 64)]))
    bytes_of_text = pre_tokenizers.ByteLevel(use_regex=False).pre_tokenize_str(text)[0][0]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["|||IP_ADDRESS|||", "<|padding|>"],
        initial_alphabet=sorted({*bytes_of_text}),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    added = ["|||IP_ADDRESS|||", *(num * " " for num in range(24, 1, -1)), "|||EMAIL_ADDRESS|||"]
    special = ["<|padding|>", "<|endoftext|>", *["[UNK]", "[CLS]", "[SEP]", "[PAD]"]]
    tokenizer.add_tokens([AddedToken(token, normalized=True) for token in added])
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    tokenizer.add_special_tokens([AddedToken("[MASK]", lstrip=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("[unused0]", normalized=True)])
    ids = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ids
    )
    return tokenizer


def gemma_tokenizer(lines: list[str]):
    """Returns a tokenizer in the layout of mmBERT's, which comes from Gemma: spaces become "▁",
    and a character without a token is divided into bytes."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    steps = {"normalizer": normalizers.Replace(" ", "▁")}
    steps |= {"pre_tokenizer": pre_tokenizers.Split(" ", "merged_with_previous")}
    trained = Tokenizer(models.BPE())
    trained.normalizer, trained.pre_tokenizer = steps.values()
    trained.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=700, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    tokens = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *model["vocab"]]
    merges = [tuple(pair) for pair in model["merges"]]
    options = {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}
    ids = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.BPE(ids, merges, **options))
    tokenizer.normalizer, tokenizer.pre_tokenizer = steps.values()
    for token in special:
        is_mask = token == "<mask>"
        tokenizer.add_special_tokens([AddedToken(token, lstrip=is_mask, normalized=False)])
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<bos> $A <eos>",
        pair="<bos> $A <eos> $B <eos>",
        special_tokens=[("<bos>", ids["<bos>"]), ("<eos>", ids["<eos>"])],
    )
    return tokenizer

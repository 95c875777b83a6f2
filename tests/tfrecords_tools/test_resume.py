"""An interrupted build continues when it is repeated, or reports why it cannot."""

from dataclasses import replace

import pytest

from bert_keras.errors import InputError
from tfrecords_tools import build as building
from tfrecords_tools.build import build
from tfrecords_tools.settings import BuildSettings, GoogleSettings

SETTINGS = BuildSettings(
    max_length=40, max_predictions=6, duplicates=2, shards=3, held_out_rate=0.3, seed=7
)
GOOGLE = GoogleSettings(max_length=40, max_predictions=6, duplicates=2, shards=3)


@pytest.fixture
def small_units(monkeypatch):
    monkeypatch.setattr("tfrecords_tools.corpus.UNIT_BYTES", 1000)
    monkeypatch.setattr("tfrecords_tools.store.SENTENCES_PER_RANGE", 60)


@pytest.fixture(params=["folder_files", "json_object"])
def stopped(corpus, vocabulary, tmp_path, monkeypatch, small_units, request):
    """Stops a build before it writes the manifest, or at its end; gives what goes on with it."""

    def going_on(*, files=corpus, vocabulary=vocabulary, settings=SETTINGS, output="records"):
        output = tmp_path / output
        return build(files, vocabulary=vocabulary, output=output, settings=settings)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(building, request.param, interrupted)
        going_on()
    return going_on


def test_other_settings_files_texts_or_vocabularies_are_refused(
    stopped, corpus, vocabulary, tmp_path
):
    other = type(vocabulary)((*vocabulary.tokens, "more"))
    before = sorted((tmp_path / "records.partial").rglob("*"))
    text = corpus[1].read_text()
    for changes, message in (
        ({"settings": replace(SETTINGS, seed=8)}, "seed is 8, but was 7"),
        ({"settings": GOOGLE}, "compat is google, but was None"),
        ({"vocabulary": other}, "vocabulary is "),
        ({"files": corpus[:1]}, "one.txt|two.txt"),
        ({"files": corpus[::-1]}, "the order of the files"),
    ):
        with pytest.raises(InputError, match=message):
            stopped(**changes)
    corpus[1].write_text(text.replace("ada", "ben"))
    with pytest.raises(InputError, match=r"two\.txt is .*repeat the command"):
        stopped()
    assert sorted((tmp_path / "records.partial").rglob("*")) == before
    corpus[1].write_text(text)  # at another time
    assert stopped(files=[f"{tmp_path}/*"])["splits"]["train"]["records"]

"""The Beam job writes the same bytes as the local build, and leaves no files if it fails."""

import json
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from bert_keras.errors import InputError
from tfrecords_tools import build as local
from tfrecords_tools.settings import BuildSettings

# DirectRunner may download another runner, which ignores the mode; this runner is local.
IN_MEMORY = ["--runner=FnApiRunner"]
REPEATED = [*IN_MEMORY, "--direct_runner_bundle_repeat=1"]  # runs each step twice
TWO_PROCESSES = [*IN_MEMORY, "--direct_running_mode=multi_processing", "--direct_num_workers=2"]
SLOW = pytest.mark.slow
SMALL = BuildSettings(max_length=40, max_predictions=6, duplicates=3, seed=7)
SUBMITTED = ["--runner=PortableRunner", "--environment_type=LOOPBACK", "--job_endpoint=embed"]
TWO_SPLITS = {"held_out_rate": 0.3, "shards": 3}
PLAIN = {"objective": "full-sentences", "max_predictions": 0, "shards": 2}
PACKED = {"objective": "sop", "sequences_per_record": 3, "shards": 2}
# A range of short records contains only a few sentences of the next one.
SHORT = {"held_out_rate": 0.3, "shards": 2, "max_length": 12, "max_predictions": 2}
CASES = {  # settings, options of the runner, sentences in a range
    "plain ids": (PLAIN, IN_MEMORY, None),
    "steps run twice": (TWO_SPLITS, REPEATED, None),
    "several ranges": (SHORT, IN_MEMORY, 3),
    "several in a record": (PACKED, IN_MEMORY, None),
    "two processes": (TWO_SPLITS, TWO_PROCESSES, None),
    "submitted": (TWO_SPLITS, SUBMITTED, None),
}


@pytest.fixture(scope="module")
def beam():
    return pytest.importorskip("apache_beam", reason="needs the extra beam")


def contents(folder):
    """Returns the bytes of each file, and the manifest without the versions."""
    files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    manifest = json.loads(files.pop("manifest.json"))
    manifest.pop("versions")
    return files, manifest


def built_on_beam(corpus, vocabulary, output, settings, options=IN_MEMORY):
    from tfrecords_tools.beam import build_on_beam

    arguments = {"vocabulary": vocabulary, "settings": settings, "pipeline_options": options}
    return build_on_beam(corpus, output=output, **arguments)


@pytest.mark.extra
@pytest.mark.parametrize(
    "case", [*list(CASES)[:3], *(pytest.param(each, marks=SLOW) for each in list(CASES)[3:])]
)
def test_records_equal_the_local_ones(beam, corpus, vocabulary, tmp_path, monkeypatch, case):
    changes, options, sentences = CASES[case]
    monkeypatch.setattr("tfrecords_tools.corpus.UNIT_BYTES", 500)
    if sentences:
        monkeypatch.setattr("tfrecords_tools.store.SENTENCES_PER_RANGE", sentences)
        monkeypatch.setattr("tfrecords_tools.instances.RECORDS_PER_BUCKET", 30)
    settings = replace(SMALL, **changes)
    local.build(corpus, vocabulary=vocabulary, output=tmp_path / "local", settings=settings)
    manifest = built_on_beam(corpus, vocabulary, tmp_path / "beam", settings, options)
    assert manifest == json.loads((tmp_path / "beam/manifest.json").read_text())
    assert contents(tmp_path / "beam") == contents(tmp_path / "local")


@pytest.mark.extra
def test_remote_input_and_output(beam, corpus, vocabulary, tmp_path):
    memory = fsspec.filesystem("memory")
    for path in corpus:
        memory.pipe(f"/beam/corpus/{path.name}", path.read_bytes())
    settings, files = replace(SMALL, held_out_rate=0.3), ["memory:///beam/corpus/*.txt"]
    options = {"vocabulary": vocabulary, "settings": settings}
    manifest = local.build(files, output=tmp_path / "local", **options)
    beam_manifest = built_on_beam(files, vocabulary, "memory://beam/records/", settings)
    assert beam_manifest | {"versions": 0} == manifest | {"versions": 0}
    assert memory.ls("/beam", detail=False) == ["/beam/corpus", "/beam/records"]
    names = {f"/beam/records/{path.name}" for path in (tmp_path / "local").iterdir()}
    assert {*memory.ls("/beam/records", detail=False)} == names
    for path in (tmp_path / "local").glob("*.tfrecord"):
        assert memory.cat(f"/beam/records/{path.name}") == path.read_bytes()
    with pytest.raises(InputError):
        built_on_beam(corpus, vocabulary, "memory://beam/records", settings)
    with pytest.raises(ValueError):  # of fsspec, which does not know the protocol
        built_on_beam(corpus, vocabulary, "nowhere://records", settings)
    memory.rm("/beam", recursive=True)


@pytest.mark.extra
@pytest.mark.parametrize(
    ("text", "settings"), [(b"a\n\nb\n\n\xff\n", {}), (b"ada\n\nben\n", {"shards": 99})]
)
def test_a_failed_job_leaves_no_files(beam, vocabulary, tmp_path, text, settings):
    (tmp_path / "bad.txt").write_bytes(text)
    bad = [tmp_path / "bad.txt"]
    with pytest.raises(Exception, match=r"is not UTF-8|too few records"):  # of the runner
        built_on_beam(bad, vocabulary, tmp_path / "records", replace(SMALL, **settings))
    assert [path.name for path in tmp_path.iterdir()] == ["bad.txt"], "files remain"

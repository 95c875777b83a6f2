"""Files where TensorFlow has no file system: through Apache Beam's, or one sentence without it."""

import errno
import io
import os
import sys

import pytest

from bert_keras.errors import InputError
from bert_keras.remote import file_system
from bert_keras.storage import open_file
from tfrecords_tools.inputs.corpus import digest, fingerprint, lines_of, units
from tfrecords_tools.inputs.places import files
from tfrecords_tools.inputs.repairs import Repairs

SYSTEMS = ["names", "folders"]
TEXTS = {
    "b.txt": b"b\n\nc\n" * 100,
    "a.txt": b"a",
    "part[1].txt": b"p",
    "sub/": b"",  # as consoles mark a folder
    "sub/d.txt": b"d",
    "sub/empty.txt": b"",
    "sub/_SUCCESS": b"",
    "_logs/e.txt": b"e",
    ".x/f.txt": b"f",
    "sub/deep/g.txt": b"g",
}


@pytest.fixture(scope="module")
def beam():
    """Two file systems of Beam's: one knows names alone, as s3:// does, one folders, as hdfs://."""
    pytest.importorskip("apache_beam", reason="needs the extra beam")
    from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem

    class Names(FileSystem):
        def __init__(self, pipeline_options):
            assert pipeline_options is not None  # s3:// wants them
            self.files = {f"{self.scheme()}://corpus/{name}": TEXTS[name] for name in TEXTS}

        @classmethod
        def scheme(cls):
            return "names"

        def has_dirs(self):
            return False

        def _list(self, prefix):
            for path, data in self.files.items():
                if path.startswith(prefix):
                    yield FileMetadata(path, len(data))

        def open(self, path, mime_type=None, compression_type=None):
            assert compression_type == "uncompressed"
            if path not in self.files:
                raise OSError(errno.ENOENT, f"Not found: {path}")
            return io.BufferedReader(io.BytesIO(self.files[path]))

        def exists(self, path):
            if "denied" in path:
                raise BeamIOError("exists() operation failed", {path: PermissionError(13)})
            return path in self.files

        def metadata(self, path):
            return FileMetadata(path, len(self.files[path]), 1.5)

        join = split = mkdirs = create = rename = copy = delete = None
        size = last_updated = checksum = None

    class Folders(Names):
        @classmethod
        def scheme(cls):
            return "folders"

        def __init__(self, pipeline_options):
            super().__init__(pipeline_options)
            self.files = {path: self.files[path] for path in self.files if path[-1] != "/"}

        def has_dirs(self):
            return True

        def exists(self, path):
            return super().exists(path) or any(each.startswith(f"{path}/") for each in self.files)

        def _list(self, folder):
            if folder in self.files:
                raise BeamIOError("List operation failed", {folder: OSError("is not a directory.")})
            top = f"{folder.rstrip('/')}/"
            below = [each.removeprefix(top) for each in self.files if each.startswith(top)]
            for name in dict.fromkeys(each.partition("/")[0] for each in below if each):
                yield FileMetadata(f"{top}{name}", len(self.files.get(f"{top}{name}", b"")))

    return Names, Folders  # registered as long as they live


@pytest.fixture
def none_set(beam, monkeypatch):
    from apache_beam.io.filesystems import FileSystems

    monkeypatch.setattr(FileSystems, "_pipeline_options", None)


def named(scheme, *places):
    top = f"{scheme}://corpus"
    return [
        os.path.relpath(path, top)
        for path in files([f"{top}/{place}".rstrip("/") for place in places])
    ]


@pytest.mark.extra
@pytest.mark.parametrize("scheme", SYSTEMS)
def test_folders_and_globs_are_those_of_local_files(none_set, tmp_path, scheme):
    for name, data in TEXTS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_bytes(data)
    for place in ("", "sub", "a.txt", "*.txt", "**/*.txt", "s*", "**", "*/d*", "sub/**", "[ab].txt",
                  "part[1].txt", "*/deep", "**/deep/*", ".x/*"):  # fmt: skip
        local = [os.path.relpath(path, tmp_path) for path in files([tmp_path / place])]
        assert named(scheme, place) == local, place
    for place, told in {"none": "does not exist", "*.md": "matches no file"}.items():
        with pytest.raises(InputError, match=rf"{told}; expected a file"):
            named(scheme, place)
    with pytest.raises(InputError, match=r"denied cannot be reached through Apache Beam.*aws.*13"):
        named(scheme, "denied")


@pytest.mark.extra
@pytest.mark.parametrize("scheme", SYSTEMS)
def test_files_open_as_local_ones(none_set, scheme):
    cut = units([f"{scheme}://corpus"], unit_bytes=50)
    assert len(cut) > 8
    lines = [line for unit in cut for line in lines_of(unit, repairs=Repairs())]
    assert lines == ["a", "", *["b", "", "c"], *["b", "", "c"] * 99, "", "p", "", "d", "", "g", ""]
    with open_file(f"{scheme}://corpus/b.txt") as file:
        assert (file.read(3), file.seek(-2, 2), file.read()) == (b"b\n\n", 498, b"c\n")
        assert (file.seek(3), file.seek(2, 1), file.read(1)) == (3, 5, b"b")
    assert digest(f"{scheme}://corpus/a.txt")["sha256"].startswith("ca978112ca1bbdca")
    assert fingerprint(f"{scheme}://corpus/b.txt") == {
        "path": f"{scheme}://corpus/b.txt",
        "bytes": 500,
        "modified": 1_500_000_000,
    }


@pytest.mark.extra
def test_errors_of_beam_have_a_number(none_set, beam, monkeypatch):
    with pytest.raises(FileNotFoundError, match="names://corpus/none"):
        open_file("names://corpus/none")

    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise RuntimeError("the line is cut")

    monkeypatch.setattr(beam[0], "open", lambda *_, **__: Broken(b"abc"))
    with open_file("names://corpus/a.txt") as file, pytest.raises(OSError, match="is cut") as told:
        file.read()
    assert told.value.errno


@pytest.mark.extra
def test_options_of_a_job_are_left(none_set, beam):
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    own = PipelineOptions([])
    FileSystems.set_options(own)
    file_system("names://corpus/a.txt")
    assert FileSystems._pipeline_options is own


@pytest.mark.parametrize("with_beam", [False, pytest.param(True, marks=pytest.mark.extra)])
def test_what_nobody_knows_names_what_to_install(monkeypatch, with_beam):
    if with_beam:
        pytest.importorskip("apache_beam", reason="needs the extra beam")
    else:
        monkeypatch.setitem(sys.modules, "apache_beam.io.filesystem", None)
        monkeypatch.setitem(sys.modules, "apache_beam", None)
    told = (
        r's9://b/a .*no file system for s9://; .*"bert-keras\[beam\]".* "apache-beam\[aws\]" too$'
    )
    for reached in (open_file, fingerprint, lambda path: files([path])):
        with pytest.raises(InputError, match=told):
            reached("s9://b/a")

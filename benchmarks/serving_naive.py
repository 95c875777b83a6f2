"""Serves one text at a time, padded to 128 tokens, as the reference of serving.py.

It runs the signature `tensors` of the same SavedModel in the same kind of session; the tokenizer
runs in Python.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from bert_keras.serving.model import SessionModel
from bert_keras.serving.versions import chosen_versions
from bert_keras.text.packing import pack
from bert_keras.text.tokenizer import WordPieceTokenizer
from bert_keras.text.vocab import Vocabulary

LENGTH = 128


class Naive:
    def __init__(self, folder: Path):
        self.model = SessionModel(folder)
        self.vocabulary = Vocabulary.from_file(folder / "assets" / "vocab.txt")
        self.tokenizer = WordPieceTokenizer(self.vocabulary, lowercase=True)
        self.one_at_a_time = threading.Lock()

    def answer(self, text: str) -> list[float]:
        ids = self.tokenizer.ids_batch([text])
        tensors = pack(ids, vocabulary=self.vocabulary, max_length=LENGTH)
        padded = {
            name: np.pad(array_BT, ((0, 0), (0, LENGTH - array_BT.shape[1])))
            for name, array_BT in tensors.items()
        }
        with self.one_at_a_time:
            return self.model.predict("tensors", padded)["probabilities"][0].tolist()


def main() -> None:
    (folder,) = chosen_versions(sys.argv[1]).values()
    naive = Naive(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # header and body in one packet; otherwise each response takes 40 ms more

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answers = [naive.answer(text) for text in request["instances"]]
            content = json.dumps({"predictions": answers}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 2048
        daemon_threads = True

    naive.answer("a text to warm up")
    with Server(("127.0.0.1", 0), Handler) as server:
        print(f"serving http://127.0.0.1:{server.server_port}/naive:predict", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()

"""Serves a classifier with ONNX Runtime in a short program, as the reference of serving.py.

The texts that wait run together, at most 32, in the order of their arrival, padded to the longest.

    python benchmarks/serving_onnx.py MODEL.onnx tokenizer.json MAX_LENGTH
"""

import asyncio
import contextlib
import os
import socket
import sys

import numpy as np
import onnxruntime
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from tokenizers import Tokenizer

MAX_BATCH_SIZE = 32  # as in `bert-keras serve`


class Classifier:
    def __init__(self, model: str, tokenizer: str, max_length: int):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        self.session = onnxruntime.InferenceSession(model, options)
        self.tokenizer = Tokenizer.from_file(tokenizer)
        self.tokenizer.enable_truncation(max_length)
        self.tokenizer.enable_padding()
        self.queue: asyncio.Queue[tuple[str, asyncio.Future]] = asyncio.Queue()

    def probabilities(self, texts: list[str]) -> list[list[float]]:
        rows = self.tokenizer.encode_batch(texts)
        inputs = {
            "input_ids": np.array([row.ids for row in rows]),
            "attention_mask": np.array([row.attention_mask for row in rows]),
            "token_type_ids": np.array([row.type_ids for row in rows]),
        }
        (logits_BL,) = self.session.run(None, inputs)
        exponents_BL = np.exp(logits_BL - logits_BL.max(axis=-1, keepdims=True))
        return (exponents_BL / exponents_BL.sum(axis=-1, keepdims=True)).tolist()

    async def run_batches(self) -> None:
        while True:
            batch = [await self.queue.get()]
            while len(batch) < MAX_BATCH_SIZE and not self.queue.empty():
                batch.append(self.queue.get_nowait())
            answers = await asyncio.to_thread(self.probabilities, [text for text, _ in batch])
            for (_, future), answer in zip(batch, answers, strict=True):
                future.set_result(answer)

    async def answer(self, request) -> JSONResponse:
        futures = []
        for text in (await request.json())["instances"]:
            futures.append(asyncio.get_running_loop().create_future())
            self.queue.put_nowait((text, futures[-1]))
        return JSONResponse({"predictions": await asyncio.gather(*futures)})


def main() -> None:
    model, tokenizer, max_length = sys.argv[1:]
    classifier = Classifier(model, tokenizer, int(max_length))
    classifier.probabilities(["a text to warm up"])

    @contextlib.asynccontextmanager
    async def lifespan(_):
        task = asyncio.create_task(classifier.run_batches())
        yield
        task.cancel()

    app = Starlette(
        routes=[Route("/predict", classifier.answer, methods=["POST"])], lifespan=lifespan
    )
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        # as asyncio sets it for its own sockets; otherwise each response takes 40 ms more
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(f"serving http://127.0.0.1:{listener.getsockname()[1]}/predict", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()

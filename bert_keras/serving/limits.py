"""What one server takes at most: numbers come in, a checked set of limits goes out."""

from dataclasses import dataclass

from bert_keras.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a server; the defaults suit texts and token ids on a few cores."""

    max_batch_size: int = 32  # rows of one session run
    max_requests: int = 1024  # that are read, wait or run at one time
    max_body_bytes: int = 16 * 2**20  # of one request, unzipped
    max_total_bytes: int = 256 * 2**20  # of the bodies of all requests together
    seconds: float = 30.0  # of one request, as TF Serving's --rest_api_timeout_in_ms

    def __post_init__(self):
        if self.max_batch_size < 1:
            raise InputError(f"a batch of {self.max_batch_size} rows holds none; give 1 or more")
        if not 0 < self.seconds <= 86400:
            raise InputError(
                f"{self.seconds} seconds are no time limit for a request; give up to a day (86400)"
            )

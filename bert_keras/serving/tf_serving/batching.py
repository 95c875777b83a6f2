"""What was measured of a version comes in; the batching that TF Serving is told to do goes out."""

from dataclasses import dataclass

from bert_keras.export.warmup import BATCH_SIZES
from bert_keras.serving.tf_serving.measured import Measured

QUEUE_SECONDS = 30  # TF Serving's default of rest_api_timeout_in_ms: nobody waits any longer
MOST_ROWS = 1000  # of a request, TF Serving's own default
WAITING_SHARE = 0.1  # of the time that a text alone takes: so much for company


@dataclass(frozen=True, kw_only=True)
class Batching:
    """As the fields of tensorflow_serving/servables/tensorflow/session_bundle_config.proto."""

    max_batch_size: int
    max_execution_batch_size: int
    batch_timeout_micros: int
    num_batch_threads: int
    max_enqueued_batches: int
    splits: bool
    pads: bool


def batching_of(found: Measured) -> Batching:
    size = max(found.batch_size, *BATCH_SIZES)
    at_once = found.num_at_once
    num_enqueued = max(at_once, int(QUEUE_SECONDS * found.rates[at_once] / size))
    return Batching(
        max_batch_size=max(size, min(MOST_ROWS, num_enqueued * size)) if found.splits else size,
        max_execution_batch_size=size,
        batch_timeout_micros=round(1e6 * WAITING_SHARE * found.seconds[1]),
        num_batch_threads=at_once,
        max_enqueued_batches=num_enqueued,
        splits=found.splits,
        pads=found.pads,
    )


def batching_file(batching: Batching, found: Measured) -> str:
    """batching_parameters.txt, with the figures that it comes from."""
    size = batching.max_execution_batch_size
    if batching.splits:
        limits = f"""\
# A larger batch answers no more texts a second.
max_execution_batch_size {{ value: {size} }}
# A larger request is cut into batches, one of more than this is refused.
enable_large_batch_splitting {{ value: true }}
max_batch_size {{ value: {batching.max_batch_size} }}"""
    else:
        limits = f"""\
# A larger batch answers no more texts a second. A larger request is refused: its answers, which are
# as wide as the longest text of a batch needs, could not be joined again.
max_batch_size {{ value: {size} }}"""
    if batching.pads:
        padding = "# Shorter inputs of a batch are filled up, which the model leaves out."
    else:
        padding = """\
# Shorter pieces would be filled up with their first piece and mask, and answered wrongly: requests
# of pieces that meet in a batch must have one length, or are refused. Text is not concerned."""
    return f"""\
# Measured where the model was exported, on {found.num_cores} cores:
#
{measured_lines(found)}

{limits}
# A tenth of what a text takes alone: so long it waits for company.
batch_timeout_micros {{ value: {batching.batch_timeout_micros} }}
# More batches at once answer no more texts a second.
num_batch_threads {{ value: {batching.num_batch_threads} }}
# {QUEUE_SECONDS} s of work, as long as the REST API waits: what comes on top is refused at once.
max_enqueued_batches {{ value: {batching.max_enqueued_batches} }}
# No allowed_batch_sizes: rows that fill a batch up would take as long as real ones.
{padding}
pad_variable_length_inputs: {str(batching.pads).lower()}
"""


def measured_lines(found: Measured) -> str:
    """The figures as a table in comments."""
    of_words = f"of {found.num_words} words"
    lines = [
        f"{size:>5} {of_words}  {1000 * seconds:9.1f} ms  {size / seconds:9.1f} texts/s"
        for size, seconds in found.seconds.items()
    ]
    lines += [
        f"{found.batch_size:>5} {of_words}, {number} such batches at once  {rate:9.1f} texts/s"
        for number, rate in found.rates.items()
    ]
    lines += [f"    1 of {found.num_longest} words  {1000 * found.longest:9.1f} ms"]
    return "\n".join(f"# {line}" for line in lines)

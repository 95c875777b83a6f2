"""Steps as they end in, steps a second out."""

import time


class Pace:
    """The first step after `restart` may hold tracing or the end of an evaluation: it starts the
    clock and is not counted."""

    def __init__(self):
        self.restart()

    def restart(self) -> None:
        self.ends: tuple[float, ...] = ()  # of the first step and of the last, in seconds
        self.num_steps = 0

    def step(self) -> None:
        now = time.perf_counter()
        if self.ends:
            self.num_steps += 1
        self.ends = (*self.ends[:1], now)

    @property
    def steps_per_second(self) -> float:
        """0 before the second step."""
        return self.num_steps / (self.ends[-1] - self.ends[0]) if self.num_steps else 0.0

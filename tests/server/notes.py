"""Notes of the log lines, records and metrics of some requests, to compare two runs."""

import contextlib
import json
import logging
from collections import Counter
from collections.abc import Iterator

from fleethook.app import Fleethook


class Notes(logging.Handler):
    """Log lines and records in their order, then the numbers that were added; all without times."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Note a record."""
        error = record.exc_info[1] if record.exc_info else None
        self.texts.append(f"{record.name} {record.levelname} {record.getMessage()} {error!r}")

    def add_line(self, line: bytes) -> None:
        """Note a log line of a review."""
        fields = json.loads(line)
        assert fields.pop("ts")
        assert fields.pop("ms") >= 0
        self.texts.append(json.dumps(fields))

    @contextlib.contextmanager
    def taken(self, app: Fleethook) -> Iterator[None]:
        """Note all log lines and records within the context, and the numbers that it adds to metrics."""
        before = _numbers(app)
        logging.getLogger().addHandler(self)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(self)
        self.texts += sorted(f"{name} {number}" for name, number in (_numbers(app) - before).items())


def _numbers(app: Fleethook) -> Counter[str]:
    samples = (sample for metric in app.metrics.registry.collect() for sample in metric.samples)
    return Counter({
        f"{sample.name}{sample.labels}": int(sample.value)
        for sample in samples if sample.name.startswith(("fleethook_review", "fleethook_dispatch")) and sample.name.endswith(("_total", "_count"))
    })  # fmt: skip

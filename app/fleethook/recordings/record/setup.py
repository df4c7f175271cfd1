"""Builds the recorder of a server from its settings."""

import contextlib
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry

from fleethook.recordings.quoted_values import Hasher
from fleethook.recordings.record.files import RecordFiles
from fleethook.recordings.record.lines import LineEncoder
from fleethook.recordings.record.recorder import Recorder, RecordMetrics, Throttle, time_thread
from fleethook.recordings.redaction import Redactor
from fleethook.recordings.suspicion import Suspicion, parse_field
from fleethook.server.reviews.recording import RecordSettingError
from fleethook.settings import Settings

_KEY_BYTES = 32


def make_encoder(redact: list[str]) -> LineEncoder:
    """Return an encoder with a new random key.

    Args:
        redact: The fields to redact beside Secrets, as `fleethook.recordings.suspicion.parse_field` reads them.

    Raises:
        RecordSettingError: A text names no field.
    """
    try:
        fields = [parse_field(text) for text in redact]
    except ValueError as error:
        raise RecordSettingError(f"record_redact: {error}") from error
    # The key stays in this process: with the key, anybody could guess values from their hashes.
    hasher = Hasher(secrets.token_bytes(_KEY_BYTES))
    return LineEncoder(Redactor(hasher, fields), Suspicion(fields), hasher)


def make_recorder(settings: Settings, directory: Path, metrics: RecordMetrics) -> Recorder:
    """Return the recorder of a server; call this on the thread of the event loop.

    Raises:
        OSError: The directory cannot be opened.
        RecordSettingError: A setting cannot be used.
    """
    encoder = make_encoder(settings.record_redact)
    files = RecordFiles(directory, max_bytes=settings.record_max, writers=settings.workers)
    throttle = Throttle(time_thread(threading.get_ident()))
    return Recorder(files, encoder.encode, metrics, throttle=throttle, sample=settings.record_sample)


@contextlib.contextmanager
def record_reviews(recorder: Recorder, metrics: RecordMetrics, registry: CollectorRegistry) -> Iterator[None]:
    """Run the recorder within the context, and publish its metrics; write the rest of the queue at the end.

    Raises:
        OSError: The directory cannot be written to.
    """
    for collector in metrics.collectors():
        registry.register(collector)
    recorder.start()
    try:
        yield
    finally:
        recorder.close()

"""The format of recordings, which the recorder writes and the commands read; docs/records.md documents it for users.

A recording is a directory of gzip files. Each file has JSON lines: a header first, then one record per review. Readers
ignore unknown members, and refuse files of another major version.
"""

import base64
import binascii
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from fleethook.model.json import JSON


class BodyError(ValueError):
    """A body is not in the form that the format defines."""


class _Text(msgspec.Struct, forbid_unknown_fields=True):
    text: str


class _Base64(msgspec.Struct, forbid_unknown_fields=True):
    base64: str


_decode_text: Final = msgspec.json.Decoder(_Text).decode
_check_json: Final = msgspec.json.Decoder(msgspec.Raw).decode
_decode_base64: Final = msgspec.json.Decoder(_Base64).decode
# A JSON body that has only one of these members is kept as text. So readers cannot mistake it for this form.
_TEXT: Final = b'{"text":'
_BASE64: Final = b'{"base64":'


def unwrap_body(raw: msgspec.Raw) -> bytes:
    """Return the bytes of a body, which may be no JSON and no UTF-8.

    Args:
        raw: The member ``review`` or ``answer`` of a record.

    Raises:
        BodyError: The base64 is damaged.
    """
    body = bytes(raw)
    try:
        if body.startswith(_TEXT):
            return _decode_text(body).text.encode()
        if body.startswith(_BASE64):
            return base64.b64decode(_decode_base64(body).base64, validate=True)
    except msgspec.ValidationError:
        return body
    except (binascii.Error, UnicodeEncodeError) as error:
        raise BodyError(f"the body is damaged: {error}") from None
    return body


def wrap_body(body: bytes) -> msgspec.Raw:
    """Return a body as the member ``review`` or ``answer`` of a record, in one line; `unwrap_body` is the reverse.

    Args:
        body: The bytes of a request or an answer. A line feed between tokens of JSON becomes a blank.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return msgspec.Raw(msgspec.json.encode({"base64": base64.b64encode(body).decode()}))
    try:
        _check_json(body)
        is_json = not body.startswith((_TEXT, _BASE64))
    except (msgspec.DecodeError, RecursionError):
        is_json = False
    return msgspec.Raw(body.replace(b"\n", b" ") if is_json else msgspec.json.encode({"text": text}))


FORMAT_NAME: Final = "fleethook.io/records"
FORMAT: Final = f"{FORMAT_NAME}/v1"
FILE_SUFFIX: Final = ".jsonl.gz"
_SUFFIXES: Final = (FILE_SUFFIX, ".jsonl")
FILE_NAME: Final = re.compile(r"reviews-(?P<start>\d{8}T\d{6}Z)-(?P<writer>[0-9a-f]{8})-(?P<number>\d{6,})\.jsonl\.gz")
"""Matches the name of a file: the UTC time at which its writer started, the writer's random id, a running number."""


def name_file(start: str, writer: str, number: int) -> str:
    """Return the name of a file, so that names sort by time for one writer.

    Args:
        start: The UTC time at which the writer started, as ``20261122T211500Z``.
        writer: The writer's random id, 8 hexadecimal digits.
        number: The running number of the file, from 1.
    """
    return f"reviews-{start}-{writer}-{number:06d}{FILE_SUFFIX}"


def find_recordings(directory: Path) -> list[Path]:
    """Return the recordings below a directory, compressed or not, by name."""
    found = directory.rglob("*.jsonl*")
    return sorted(path for path in found if path.name.endswith(_SUFFIXES) and path.is_file())


class Header(msgspec.Struct, kw_only=True):
    """The first line of a file.

    Attributes:
        format: The name and major version of the format.
        version: The version of fleethook that wrote the file.
        started: The RFC 3339 time at which the file was opened.
    """

    format: str
    version: str
    started: str


class RecordedCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The answer of a webhook or a script, or a live read, on which an answer depended; exactly one of two is set.

    The members are those of `fleethook.server.reviews.records_and_traces.AskedCall`. Keys and answers, by kind:

    - ``webhook`` while dispatching: key ``<phase>/<configuration>/<name>/<index>``
      (`fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation.Webhook`), answer
      ``{"allowed", "patch" (base64), "patchType", "status", "warnings", "auditAnnotations"}``.
      `fleethook.engines.dispatch.call.recorded_calls` converts both ways. ``failure`` is
      ``{"cutShort": bool, "reason": str}`` if the call failed (the failurePolicy applies), or
      ``{"status": metav1.Status}`` if the request is refused.
    - ``webhook`` of a CustomResourceDefinition's conversion: key ``convert/<from>/<to>``, answer the object.
    - ``webhook`` of an interpreter: key ``<operation>/<configuration>/<webhook>``, answer the members of
      `fleethook.interpret.interpreter.Answer` that are set. ``failure`` is ``{"code": int, "ignored": bool}``.
    - ``script``: key ``<operation>/<source>``, and ``digest``; answer and failure as for interpreter webhooks.
    - ``read``, by name: ``SubjectAccessReview`` with the question as key, answer ``{"allowed", "reason", "error"}``;
      ``Namespace`` with its name as key, answer ``{"labels": …}``; ``RequestQuota`` and ``Readiness``, by which the
      server refused the review without a decision, so that a replay cannot repeat it.

    Attributes:
        kind: ``webhook``, ``script`` or ``read``.
        name: The webhook's name in its configuration, the script's name, or the kind of a read.
        key: Identifies a call of a review, together with ``kind``. Calls with equal keys are in their order.
        configuration: The name of the configuration or customization, ``""`` for a read.
        cluster: The logical cluster of the configuration or of the object that was read, ``""`` for a plain cluster.
        digest: The SHA-256 digest of a script.
        answer: The answer as JSON; unset if ``error`` is set.
        error: The reason why there is no answer, ``""`` if there is one.
        failure: Facts about an error that decide how it is handled.
    """

    kind: str
    name: str
    key: str
    configuration: str = ""
    cluster: str = ""
    digest: str = ""
    answer: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: str = ""
    failure: dict[str, JSON] | None = None


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A line after the header: one review and its answer.

    Attributes:
        time: The RFC 3339 time of the answer, with microseconds, in UTC.
        route: The route's template, for example ``/clusters/{cluster}/mutate``.
        path: The path and query as requested.
        cluster: The logical cluster in which the review was decided, ``""`` for a plain cluster.
        seconds: From the review to its answer.
        status: The HTTP status.
        caller: Facts about the HTTP request that the answer depends on.
        redacted: Whether values were replaced by hashes.
        review: The body as received. A body that is no JSON text is ``{"text": …}``, or ``{"base64": …}`` if it is no
            UTF-8 either; a JSON object that has only one of these members is ``{"text": …}``, too.
        answer: The body as sent, in the same form.
        calls: The answers that this answer depended on.
    """

    time: str
    route: str
    path: str
    cluster: str = ""
    seconds: float = 0.0
    status: int = 200
    caller: dict[str, JSON] = {}
    redacted: bool = False
    review: msgspec.Raw
    answer: msgspec.Raw
    calls: list[RecordedCall] = []


MAX_LINE: Final = 64 * 1024 * 1024
"""Bytes of the longest line that is read. A review has at most 8 MiB by default, and its record repeats parts of it."""
_CHUNK: Final = 1024 * 1024
_GZIP: Final = b"\x1f\x8b"


class RecordLine(NamedTuple):
    """A line without its line feed; ``number`` counts from 1."""

    number: int
    text: bytes


class Fault(NamedTuple):
    """The reason why the rest of a file, from a line on, cannot be read."""

    number: int
    reason: str


def read_lines(stream: BinaryIO, *, max_line: int = MAX_LINE) -> Iterator[RecordLine | Fault]:
    """Yield the lines of a stream; a fault ends it.

    The gzip data of a server that still writes, or was killed, lacks its end; that is no fault.

    Args:
        stream: Gzip, also of several members, or plain text. It is read in order, and not closed.
        max_line: Bytes of the longest line.
    """
    plain = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)  # type: ignore[type-var]
    is_gzip = plain.peek(2).startswith(_GZIP)
    opened = gzip.GzipFile(fileobj=plain) if is_gzip else plain
    number, pending = 1, b""
    try:
        while chunk := opened.read1(_CHUNK):
            first, *others = chunk.split(b"\n")
            pending += first
            for text in others:
                yield RecordLine(number, pending)
                number, pending = number + 1, text
            if len(pending) > max_line:
                yield Fault(number, f"the line has more than {max_line} bytes; the rest of the file is not read")
                return
    except EOFError:
        if pending:
            yield Fault(number, "the gzip data is cut off here")
        return
    except (OSError, zlib.error) as error:
        yield Fault(number, f"the file cannot be read: {error}")
        return
    if pending:
        yield RecordLine(number, pending)


_decode_record: Final = msgspec.json.Decoder(Record).decode
_decode_header: Final = msgspec.json.Decoder(Header).decode
_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class RecordEntry(NamedTuple):
    """A record and its place."""

    file: str
    line: int
    record: Record


class RecordProblem(NamedTuple):
    """Something that cannot be used, and the reason."""

    file: str
    line: int
    reason: str

    @property
    def place(self) -> str:
        """The place as ``FILE:LINE``."""
        return f"{self.file}:{self.line}"


def read_entries(stream: BinaryIO, file: str) -> Iterator[RecordEntry | RecordProblem]:
    """Yield the records of a file in their order, and the problems between them.

    Several files may follow each other in one stream, as ``cat`` writes them. Nothing is read of a file with another
    format or another major version.

    Args:
        stream: The content, compressed or not.
        file: The name for places.
    """
    is_known, is_first = False, True
    for line in read_lines(stream):
        if isinstance(line, Fault):
            yield RecordProblem(file, line.number, line.reason)
            continue
        reason = ""
        if is_known:
            try:
                yield RecordEntry(file, line.number, _decode_record(line.text))
            except _ERRORS as error:
                reason = _describe(error)
            else:
                continue
        header = _read_header(line)
        if header is not None:
            is_known = header.format == FORMAT
            reason = "" if is_known else _describe_unknown(header)
        elif is_first:
            yield RecordProblem(file, line.number, "this is no recording of fleethook: the first line is no header")
            return
        if reason:
            yield RecordProblem(file, line.number, reason)
        is_first = False


def _read_header(line: RecordLine) -> Header | None:
    """Return the header in a line, None if the line is none."""
    try:
        header = _decode_header(line.text)
    except _ERRORS:
        return None
    return header if header.format.startswith(f"{FORMAT_NAME}/") else None


def _describe_unknown(header: Header) -> str:
    return (
        f"the format is {header.format}, and this fleethook reads {FORMAT}: use the fleethook that wrote it "
        f"({header.version}), or a newer one"
    )


def _describe(error: Exception) -> str:
    if isinstance(error, msgspec.ValidationError):
        return f"the line is no record: {error}"
    if isinstance(error, RecursionError):
        return "the line is JSON nested too deep"
    return f"the line is not JSON: {error}"


class CallName(NamedTuple):
    """A webhook or a read, for people: ``webhook widgets-policy/audit.example.org``."""

    kind: str
    configuration: str
    name: str

    def __str__(self) -> str:
        place = f"{self.configuration}/{self.name}" if self.configuration else self.name
        return f"{self.kind} {place}"

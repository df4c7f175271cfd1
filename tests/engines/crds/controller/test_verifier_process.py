"""The process that verifies tarballs: questions, answers, and the fork with its limits."""

import io
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from fleethook.cluster.certificates.certificate_authority import new_authority
from fleethook.engines.crds.apply.crd_patches import build_values
from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.archive.crd_content import LIMITS
from fleethook.engines.crds.controller import verifier_process
from fleethook.engines.crds.controller.verifier_process import (
    Answer,
    ChildProcess,
    Question,
    answer_question,
    answer_questions,
    process_question,
    read_frame,
    scale_limits,
    write_frame,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.tarballs import build, dotted, release, small
from tests.waiting import NET


def handle(request: bytes) -> bytes:
    match request:
        case b"pid":
            return str(os.getpid()).encode()
        case b"exit":
            os._exit(3)
        case b"print":
            os.write(1, b"output of a library")
            return b"printed"
        case b"sleep":
            time.sleep(600)
            return b""
        case _:
            return request[::-1]


@pytest.fixture
def child() -> Iterator[ChildProcess]:
    made = ChildProcess(__name__)
    yield made
    made.stop()


def test_requests_are_answered_by_one_process(child: ChildProcess) -> None:
    assert [child.ask(request) for request in (b"abc", b"", bytes(100_000))] == [b"cba", b"", bytes(100_000)]
    first = child.ask(b"pid")
    assert first == child.ask(b"pid") != str(os.getpid()).encode()


def test_output_of_libraries_is_no_response(child: ChildProcess) -> None:
    assert child.ask(b"print") == b"printed"
    assert child.ask(b"ab") == b"ba"


def test_a_request_that_ends_the_process_twice_has_no_response(child: ChildProcess) -> None:
    assert child.ask(b"exit") is None
    assert child.ask(b"ab") == b"ba"


def test_a_process_that_was_killed_is_replaced(child: ChildProcess) -> None:
    first = child.ask(b"pid")
    assert first is not None
    os.kill(int(first), 9)
    second = child.ask(b"pid")
    assert second is not None
    assert second != first


def test_stop_ends_a_request_without_a_response(child: ChildProcess) -> None:
    first = child.ask(b"pid")
    answers: list[bytes | None] = []
    asking = threading.Thread(target=lambda: answers.append(child.ask(b"sleep")), daemon=True)
    asking.start()
    # A stop before the request has no effect on it: a new process handles it.
    while asking.is_alive():
        child.stop()
        asking.join(0.1)
    assert answers == [None]
    assert child.ask(b"pid") != first


def test_a_module_that_cannot_run_has_no_response() -> None:
    assert ChildProcess("tests.control.no_such_module").ask(b"x") is None


@pytest.mark.parametrize("stream", [b"", b"\0\0\0", b"\0\0\0\3ab"])
def test_a_truncated_frame_is_the_end_of_the_stream(stream: bytes) -> None:
    assert read_frame(io.BytesIO(stream)) is None


def test_frames_are_read_as_they_were_written() -> None:
    stream = io.BytesIO()
    for content in (b"a", b"", b"\n\0"):
        write_frame(stream, content)
    stream.seek(0)
    assert [read_frame(stream) for _ in range(4)] == [b"a", b"", b"\n\0", None]


if __name__ == "__main__":
    answer_questions(handle)
    sys.exit(0)


VALUES = build_values(name="demo", namespace="n", ca_pem=new_authority(now=datetime.now(UTC)).certificate_pem)


def ask(tarball: bytes, **given: Any) -> bytes:
    options: dict[str, Any] = {"strict": False, "normalize_dot": False, "scale": 1, **given}
    return msgspec.msgpack.encode(Question(tarball, **options))


def answer(tarball: bytes, **given: Any) -> Answer:
    """Answer a question in a fork, as the process does."""
    return msgspec.msgpack.decode(answer_question(ask(tarball, **given)), type=Answer)


def test_only_limits_on_work_are_scaled() -> None:
    scaled = scale_limits(4)
    assert (scaled.unpacked_bytes, scaled.yaml_nodes) == (LIMITS.unpacked_bytes // 4, LIMITS.yaml_nodes // 4)
    assert scaled.yaml_depth == LIMITS.yaml_depth
    assert scale_limits(1) == LIMITS


def describe(function: Callable[[], object]) -> object:
    """Return the result of a function, or its error as exit code and text."""
    try:
        return function()
    except CRDsError as error:
        return error.exit, str(error)


@pytest.mark.parametrize("body", [release(), dotted(), release()[:-9], b""], ids=["release", "dotted", "cut", "empty"])
@pytest.mark.parametrize("normalize_dot", [False, True])
def test_a_fork_answers_as_the_archive(body: bytes, normalize_dot: bool) -> None:
    def verify() -> object:
        return archive.verify(body, limits=LIMITS, strict=False, normalize_dot=normalize_dot)

    def check() -> object:
        found = answer(body, normalize_dot=normalize_dot)
        found.check()
        return found.manifest

    assert describe(check) == describe(verify)


def test_strictness_is_passed_on() -> None:
    body = build({**small(), "crds/bases/a.yml": b"a"})
    assert answer(body).exit == Exit.OK
    assert answer(body, strict=True).exit == Exit.ARCHIVE


def test_a_verified_tarball_is_read_as_json() -> None:
    found = answer(release(), values=VALUES)
    assert found.exit == Exit.OK
    crds = {name: json.loads(text) for name, text in found.crds.items()}
    assert "works.work.karmada.io" in crds
    assert {crd["metadata"]["name"] for crd in crds.values()} == set(crds)
    assert isinstance(json.loads(found.patches), list)


def test_integers_beyond_64_bits_are_kept() -> None:
    name = "as.work.karmada.io"
    document = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {"group": "work.karmada.io", "maximum": 2**70},
    }  # fmt: skip
    body = build({**small(), "crds/bases/work/work.karmada.io_as.yaml": yaml.safe_dump(document).encode()})
    found = process_question(ask(body, values=VALUES))
    assert json.loads(found.crds[name])["spec"]["maximum"] == 2**70


def die(monkeypatch: pytest.MonkeyPatch, action: Any) -> Answer:
    """Answer while the fork does something else."""
    monkeypatch.setattr(verifier_process, "process_question", lambda _: action())
    return answer(b"")


def test_a_fork_that_is_killed_exceeded_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    found = die(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert found.exit == Exit.LIMIT
    assert "s of CPU time or more than the available memory" in found.text


def test_a_fork_with_a_defect_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    found = die(monkeypatch, lambda: {}["missing"])
    assert (found.exit, found.text.startswith("the process that verifies the tarball ended with status")) == (
        Exit.INTERNAL,
        True,
    )


def test_a_fork_without_memory_exceeded_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhaust(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(archive, "verify", exhaust)
    found = answer(b"")
    assert (found.exit, found.text) == (Exit.LIMIT, "verifying the tarball takes more than 512 MiB of memory")


def test_a_fork_has_limits_and_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = (resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE)

    def report() -> Answer:
        limits = [resource.getrlimit(kind) for kind in kinds]
        # Standard error, and the pipe for the answer.
        files = [number for number in range(64) if Path(f"/proc/self/fd/{number}").exists()]
        return Answer(text=json.dumps([limits, len(files)]))

    found = die(monkeypatch, report)
    (cpu, data, core, written), files = json.loads(found.text)
    assert (cpu, data) == ([120, 121], [512 << 20, 512 << 20])
    assert (core, written) == ([0, 0], [0, 0])
    assert files == 2


def test_the_module_runs_as_a_process() -> None:
    done = subprocess.run(
        [sys.executable, "-m", verifier_process.MODULE], input=b"", capture_output=True, timeout=NET, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"")

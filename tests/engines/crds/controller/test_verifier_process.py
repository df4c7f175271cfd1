"""The process that verifies tarballs: questions, answers, and the fork with its limits."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
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
    Question,
    answer_question,
    process_question,
    scale_limits,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.tarballs import build, dotted, release, small
from tests.waiting import NET

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

"""One attempt: redirects, credentials, and the check of the body."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.download.download_errors import AttemptError
from fleethook.engines.crds.download.http_requests import DownloadDeadline, Validators, parse_address
from fleethook.engines.crds.download.transfer import Job, TarballFile, TransferResult, transfer
from fleethook.engines.crds.tarball_source import CRDsError, Exit, TarballSource
from tests.engines.crds.downloading import BODY
from tests.engines.crds.origin import Origin, chunked, says, serving
from tests.waiting import NET


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "crds.tar.gz"


def test_a_finished_file_is_kept_with_its_digest(path: Path) -> None:
    with TarballFile(path, max_bytes=10) as partial:
        partial.add(b"ab")
        partial.add(b"")
        partial.add(b"cd")
        assert partial.size == 4
        assert partial.finish() == partial.sha256 == hashlib.sha256(b"abcd").hexdigest()
    assert path.read_bytes() == b"abcd"
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_unfinished_file_is_removed(path: Path) -> None:
    with TarballFile(path, max_bytes=10) as partial:
        partial.add(b"ab")
        assert path.exists()
    assert not path.exists()
    with TarballFile(path, max_bytes=10):
        path.unlink()


def test_a_restart_forgets_the_former_body(path: Path) -> None:
    with TarballFile(path, max_bytes=10) as partial:
        partial.restart(5)
        partial.add(b"abcde")
        partial.restart(2)
        assert partial.size == 0
        partial.add(b"xy")
        assert partial.finish() == hashlib.sha256(b"xy").hexdigest()
    assert path.read_bytes() == b"xy"


def test_the_limit_is_the_largest_size(path: Path) -> None:
    with TarballFile(path, max_bytes=4) as partial:
        partial.restart(total=4)
        partial.add(b"abcd")
        with pytest.raises(CRDsError, match="larger than the limit of 4 bytes: the body has more") as caught:
            partial.add(b"e")
        assert caught.value.exit is Exit.LIMIT
        with pytest.raises(CRDsError, match="larger than the limit of 4 bytes: 5 bytes"):
            partial.restart(total=5)
        assert (partial.size, partial.sha256) == (4, hashlib.sha256(b"abcd").hexdigest())


def test_an_existing_file_or_link_is_not_written_to(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    for _ in range(2):
        with pytest.raises(CRDsError, match=f"^cannot write {path}: file exists$") as caught:
            TarballFile(path, max_bytes=4)
        assert caught.value.exit is Exit.DISK
        path.unlink()
        path.write_bytes(b"kept")
    assert path.read_bytes() == b"kept"
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture
def partial(into: Path) -> Iterator[TarballFile]:
    with TarballFile(into, max_bytes=1 << 20) as made:
        yield made


def attempt(
    origin: Origin,
    partial: TarballFile,
    *,
    validators: Validators = Validators(),  # noqa: B008 - immutable
    **given: Any,
) -> TransferResult:
    options: dict[str, Any] = {"progress": None, "allow_private": True, "allow_hosts": ()}
    options |= {name: given.pop(name) for name in options if name in given}
    source = TarballSource(origin.url, ca_pem=origin.ca_pem, **given)
    address = parse_address(origin.url)
    assert address is not None
    with DownloadDeadline(NET) as deadline:
        job = Job(source=source, file=partial, deadline=deadline, environment={}, sleep=lambda _: None, **options)
        return transfer(job, address, validators)


def refuse(origin: Origin, partial: TarballFile, text: str, **given: Any) -> AttemptError:
    with pytest.raises(AttemptError, match=text) as raised:
        attempt(origin, partial, **given)
    return raised.value


def test_not_modified_without_a_condition_is_an_error(partial: TarballFile) -> None:
    with serving(says(status="304 Not Modified")) as origin:
        assert refuse(origin, partial, "304").exit is Exit.HTTP


def test_a_body_of_another_kind_is_refused(partial: TarballFile) -> None:
    with serving(says(b"<html>" + b"x" * 1000, content_type="text/html")) as origin:
        refuse(origin, partial, "it looks like an HTML page")


def test_a_body_without_a_length_ends_with_its_last_chunk(partial: TarballFile, into: Path) -> None:
    with serving(chunked(BODY)) as origin:
        attempt(origin, partial)
    assert into.read_bytes() == BODY

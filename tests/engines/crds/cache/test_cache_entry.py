"""Tests of the sizes of entries, and of the entries that are pruned."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleethook.engines.crds.archive.crd_content import ArchiveLimits
from fleethook.engines.crds.cache.cache_entry import (
    RECORD,
    TARBALL,
    Listed,
    Record,
    has_tarball,
    is_key,
    measure_size,
    open_directory,
    open_entry,
    read_record,
    replace_record,
    select_removable,
    translate_os_errors,
    write_record,
)
from fleethook.engines.crds.cache.tarball_cache import Cache, Origin
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import list_names, open_directory_at
from fleethook.engines.crds.fetch import fetch
from fleethook.engines.crds.tarball_source import Policy, Source
from tests.engines.crds.fetching import NEVER, bring
from tests.engines.crds.origin import serving, tarball
from tests.engines.crds.tarballs import build, crd, dotted, patch, small

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def entry(key: str, days: int, size: int = 10) -> Listed:
    return Listed(key, Path(key), "ready", size, NOW - timedelta(days=days), None)


ENTRIES = [entry("new", 0), entry("old", 30), entry("middle", 10), entry("future", -5)]


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, []),
        ({"older_than": timedelta(days=9)}, ["old", "middle"]),
        ({"older_than": timedelta(days=9), "keep": 3}, ["old"]),
        ({"max_bytes": 20}, ["old", "middle"]),
        ({"max_bytes": 0}, ["old", "middle", "future", "new"]),
        ({"max_bytes": 0, "keep": 4}, []),
    ],
)
def test_the_oldest_entries_are_removed_first(options: dict[str, Any], keys: list[str]) -> None:
    assert [one.key for one in select_removable(ENTRIES, now=NOW, **options)] == keys


def test_a_large_entry_leaves_room_for_an_older_small_one() -> None:
    entries = [entry("large", 1, 100), entry("small", 2, 10)]
    assert [one.key for one in select_removable(entries, now=NOW, max_bytes=50)] == ["large"]


def test_the_size_counts_files_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "entry" / "crds").mkdir(parents=True)
    (tmp_path / "outside").write_bytes(b"x" * 5000)
    (tmp_path / "entry" / "a").write_bytes(b"x" * 10)
    (tmp_path / "entry" / "crds" / "b").write_bytes(b"x" * 20)
    (tmp_path / "entry" / "link").symlink_to(tmp_path / "outside")
    link = len(str(tmp_path / "outside"))
    assert measure_size(tmp_path / "entry") == 30 + link
    (tmp_path / "to-entry").symlink_to(tmp_path / "entry")
    assert measure_size(tmp_path / "to-entry") == 0


WORKS = "crds/bases/work/work.karmada.io_works.yaml"
URL = "http://local/crds.tar.gz"
KEY = Source(URL).key
GOOD = build(small())
EVIL = build({**small(), WORKS: crd("works", "work.karmada.io", document="# evil\n")})


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    made = Cache(tmp_path / "data")
    (tmp_path / "given.tar.gz").write_bytes(GOOD)
    made.import_file(KEY, tmp_path / "given.tar.gz", Origin(URL))
    return made


def edit_record(path: Path, **members: object) -> None:
    record = json.loads((path / ".meta.json").read_bytes())
    (path / ".meta.json").write_text(json.dumps(record | members))


def change(path: Path, name: str, body: bytes) -> None:
    """Change a file, and have the record of an earlier release say that this is right, by content and by looks."""
    (path / name).write_bytes(body)
    files = [file for file in path.rglob("*") if file.name != ".meta.json"]
    seen = {}
    for file in files:
        status = file.stat()
        seen[str(file.relative_to(path))] = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    manifest = {
        str(file.relative_to(path)): {"size": file.stat().st_size, "sha256": sha(file.read_bytes())}
        for file in files
        if file.is_file() and file.name != TARBALL
    }
    edit_record(path, seen=seen, manifest=manifest, verified_at="2026-11-22T00:00:00Z")


def test_an_edited_tree_with_an_edited_record_is_detected(cache: Cache) -> None:
    body = (cache.path(KEY) / WORKS).read_bytes()
    change(cache.path(KEY), WORKS, b"E" + body[1:])
    assert cache.verify(KEY) == [f"{WORKS} has different content"]
    assert cache.entry(KEY) is None
    assert [listed.state for listed in cache.entries()] == ["changed"]


def test_an_added_file_with_an_edited_record_is_detected(cache: Cache) -> None:
    change(cache.path(KEY), "crds/patches/webhook_in_evils.yaml", patch("evils"))
    assert cache.verify(KEY) == ["crds/patches/webhook_in_evils.yaml does not belong there"]


def test_a_pin_is_compared_with_the_bytes(cache: Cache) -> None:
    path = cache.path(KEY)
    (path / TARBALL).write_bytes(EVIL)
    (path / WORKS).write_bytes(crd("works", "work.karmada.io", document="# evil\n"))
    # The record tells the pinned digest, the bytes have another one.
    assert cache.verify(KEY) == [f"{TARBALL} differs from its record"]
    with pytest.raises(CRDsError) as caught:
        fetch(cache, Source(URL, sha256=sha(GOOD)), Policy.NEVER)
    assert caught.value.exit is Exit.NOT_CACHED
    # The record tells the digest of the bytes, the pin another one.
    edit_record(path, sha256=sha(EVIL), size=len(EVIL))
    assert cache.verify(KEY) == []
    with pytest.raises(CRDsError) as caught:
        fetch(cache, Source(URL, sha256=sha(GOOD)), Policy.NEVER)
    assert caught.value.exit is Exit.INTEGRITY


def test_a_changed_entry_with_a_pin_is_downloaded_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with serving(tarball(GOOD)) as origin:
        source = Source(origin.url, sha256=sha(GOOD))
        path = bring(cache, source).path
        (path / TARBALL).write_bytes(EVIL)
        edit_record(path, sha256=sha(EVIL), size=len(EVIL))
        assert bring(cache, source).result == "downloaded"
        assert (path / TARBALL).read_bytes() == GOOD
        assert bring(cache, source, NEVER).result == "cached"


@pytest.mark.parametrize("body", [b"", b"\x1f\x8b", GOOD[:-1], GOOD + b"x"], ids=["empty", "magic", "cut", "more"])
def test_a_record_of_bytes_that_are_not_a_tarball_is_refused(cache: Cache, body: bytes) -> None:
    (cache.path(KEY) / TARBALL).write_bytes(body)
    edit_record(cache.path(KEY), sha256=sha(body), size=len(body))
    (problem,) = cache.verify(KEY)
    assert problem.startswith(f"{TARBALL} cannot be used: ")
    assert cache.entry(KEY) is None


def test_names_with_dots_have_to_be_recorded(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "given.tar.gz").write_bytes(dotted())
    cache.import_file(KEY, tmp_path / "given.tar.gz", Origin(URL), normalize_dot=True)
    assert cache.verify(KEY) == []
    edit_record(cache.path(KEY), normalize_dot=False)
    assert "cannot be used" in cache.verify(KEY)[0]


def test_the_verified_bytes_are_used(cache: Cache) -> None:
    found = cache.tarball(KEY)
    assert found is not None
    (cache.path(KEY) / TARBALL).write_bytes(EVIL)
    assert found[1] == GOOD


# --- Bringing a file in -----------------------------------------------------------------------------------------------


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize(
    ("make", "code", "text"),
    [
        (lambda path: path.symlink_to("/dev/zero"), Exit.USAGE, "cannot read {}: not a regular file"),
        (lambda path: path.symlink_to("/dev/null"), Exit.USAGE, "cannot read {}: not a regular file"),
        (os.mkfifo, Exit.USAGE, "cannot read {}: not a regular file"),
        (Path.mkdir, Exit.USAGE, "cannot read {}: not a regular file"),
        (lambda _: None, Exit.USAGE, "cannot read {}: No such file or directory"),
        (sparse, Exit.LIMIT, "{} has more than 16777216 bytes"),
    ],
    ids=["zero", "null", "pipe", "directory", "none", "sparse"],
)
def test_a_file_that_is_not_regular_is_refused_before_it_is_copied(
    tmp_path: Path, make: Callable[[Path], object], code: Exit, text: str
) -> None:
    make(tmp_path / "given")
    with pytest.raises(CRDsError) as caught:
        Cache(tmp_path / "data").import_file(KEY, tmp_path / "given", Origin(URL))
    assert (caught.value.exit, str(caught.value)) == (code, text.format(tmp_path / "given"))
    assert not (tmp_path / "data").exists()


def test_a_file_that_grows_while_it_is_read_is_refused_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "given").write_bytes(GOOD)
    monkeypatch.setattr(os, "fstat", lambda descriptor, real=os.fstat: _smaller(real(descriptor)))
    with pytest.raises(CRDsError) as caught:
        Cache(tmp_path / "data", limits=ArchiveLimits(download_bytes=100)).import_file(
            KEY, tmp_path / "given", Origin(URL)
        )
    assert caught.value.exit is Exit.LIMIT


def _smaller(status: os.stat_result) -> os.stat_result:
    return os.stat_result((*status[:6], 1, *status[7:10]))


def test_a_download_beyond_the_limit_has_the_exit_code_of_a_limit(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limits=ArchiveLimits(download_bytes=len(GOOD) - 1))
    with serving(tarball(GOOD)) as origin, pytest.raises(CRDsError) as caught:
        bring(cache, origin.url)
    assert (caught.value.exit, str(caught.value)) == (Exit.LIMIT, f"the tarball has more than {len(GOOD) - 1} bytes")


def test_a_tarball_beyond_the_limit_is_not_adopted(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limits=ArchiveLimits(download_bytes=100))
    cache.path(KEY).mkdir(parents=True)
    (cache.path(KEY) / TARBALL).write_bytes(GOOD)
    with pytest.raises(CRDsError) as caught:
        cache.adopt(KEY)
    assert caught.value.exit is Exit.LIMIT


def test_a_link_that_a_user_names_is_followed(tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(GOOD)
    (tmp_path / "link").symlink_to(tmp_path / "given")
    cache = Cache(tmp_path / "data")
    assert cache.import_file(KEY, tmp_path / "link", Origin(URL), sha256=sha(GOOD)).record.sha256 == sha(GOOD)
    assert cache.verify(KEY) == []


NOW = datetime(2026, 6, 1, tzinfo=UTC)
GIVEN = Record(
    url="https://h/a", final_url="https://h/b", sha256="0" * 64, size=7, etag='"e"', last_modified="", fetched_at=NOW,
    asked_at=NOW, asked=1, warnings=("one",),
)  # fmt: skip


@pytest.fixture
def open_root(tmp_path: Path) -> Iterator[int]:
    with open_directory_at(tmp_path) as descriptor:
        yield descriptor


def test_a_written_record_is_read_back(open_root: int) -> None:
    assert read_record(open_root) is None
    write_record(open_root, GIVEN)
    assert read_record(open_root) == GIVEN


def damage(**members: Any) -> bytes:
    return json.dumps({**json.loads(msgspec.json.encode(GIVEN)), **members}).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"{}",
        b"\xff",
        b'{"x":' + b"[" * 100_000,
        damage(schema=2),
        damage(size="7"),
        damage(fetched_at="soon"),
    ],
)
def test_an_invalid_record_is_none(tmp_path: Path, open_root: int, text: bytes) -> None:
    (tmp_path / RECORD).write_bytes(text)
    assert read_record(open_root) is None


def test_members_of_other_releases_are_ignored_and_missing_options_have_their_defaults(
    tmp_path: Path, open_root: int
) -> None:
    members = json.loads(damage(files={"a": 1}))
    del members["normalize_dot"], members["schema"]
    (tmp_path / RECORD).write_text(json.dumps(members))
    assert read_record(open_root) == GIVEN


def test_a_link_is_no_record(tmp_path: Path, open_root: int) -> None:
    (tmp_path / "elsewhere").write_bytes(damage())
    (tmp_path / RECORD).symlink_to("elsewhere")
    assert read_record(open_root) is None


def test_a_record_that_is_too_large_is_none(tmp_path: Path, open_root: int) -> None:
    (tmp_path / RECORD).write_bytes(damage() + b" " * (4 << 20))
    assert read_record(open_root) is None


def test_a_record_is_replaced_at_once_and_never_overwritten(tmp_path: Path, open_root: int) -> None:
    (tmp_path / "staged").mkdir()
    write_record(open_root, GIVEN)
    with pytest.raises(FileExistsError):
        write_record(open_root, GIVEN)
    inode = (tmp_path / RECORD).stat().st_ino
    after = msgspec.structs.replace(GIVEN, asked=2)
    with open_directory_at(tmp_path / "staged") as staged:
        replace_record(open_root, staged, after)
    assert read_record(open_root) == after
    assert (tmp_path / RECORD).stat().st_ino != inode
    assert list((tmp_path / "staged").iterdir()) == []


@pytest.fixture
def parent_directory(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "entry").mkdir(mode=0o750)
    (tmp_path / "entry" / TARBALL).write_bytes(b"x")
    (tmp_path / "entry" / TARBALL).chmod(0o640)
    with open_directory_at(tmp_path) as descriptor:
        yield descriptor


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("0" * 64, True),
        ("f" * 64, True),
        ("F" * 64, False),
        ("0" * 63, False),
        ("0" * 65, False),
        ("0" * 64 + "\n", False),
    ],
)
def test_a_key_has_64_hexadecimal_digits(name: str, *, expected: bool) -> None:
    assert is_key(name) is expected


def test_errors_of_the_system_name_the_path_and_may_pass() -> None:
    with pytest.raises(CRDsError) as caught, translate_os_errors("reading"):
        raise PermissionError(13, "Permission denied", "/cache/x")
    assert (caught.value.exit, caught.value.transient) == (Exit.DISK, True)
    assert str(caught.value) == "reading: Permission denied: /cache/x"
    with pytest.raises(CRDsError, match=r"^reading: full$"), translate_os_errors("reading"):
        raise OSError("full")


def test_a_directory_is_opened_by_path_or_in_its_parent(tmp_path: Path, parent_directory: int) -> None:
    for descriptor in (
        open_directory(tmp_path / "entry"),
        open_directory(Path("/elsewhere/entry"), parent_directory),
    ):
        assert descriptor is not None
        assert list_names(descriptor) == [TARBALL]
        os.close(descriptor)
    assert open_directory(tmp_path / "absent") is open_directory(tmp_path / "absent", parent_directory) is None


@pytest.mark.parametrize(
    ("make", "wrong"),
    [(lambda path: path.symlink_to("entry"), "is a symbolic link"), (Path.touch, "is not a directory")],
)
def test_a_link_or_a_file_is_no_directory(
    tmp_path: Path, parent_directory: int, make: Callable[[Path], None], wrong: str
) -> None:
    make(tmp_path / "other")
    for parent in (None, parent_directory):
        with pytest.raises(CRDsError, match=f"{tmp_path}/other {wrong}: refused"):
            open_directory(tmp_path / "other", parent)


def replace_tarball_by_link(entry: Path) -> None:
    (entry / TARBALL).unlink()
    (entry / TARBALL).symlink_to("elsewhere")


def replace_tarball_by_directory(entry: Path) -> None:
    (entry / TARBALL).unlink()
    (entry / TARBALL).mkdir()


@pytest.mark.parametrize(
    ("damage", "wrong"),
    [
        (lambda entry: entry.chmod(0o757), "entry is world-writable"),
        (lambda entry: (entry / TARBALL).chmod(0o642), f"{TARBALL} is world-writable"),
        (replace_tarball_by_link, f"{TARBALL} is a symbolic link"),
        (replace_tarball_by_directory, f"{TARBALL} is not a regular file"),
    ],
)
def test_an_unsafe_entry_is_refused_and_leaves_no_descriptor(
    tmp_path: Path, parent_directory: int, damage: Callable[[Path], None], wrong: str
) -> None:
    damage(tmp_path / "entry")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(CRDsError, match=wrong) as caught:
        open_entry(tmp_path / "entry", parent_directory)
    assert caught.value.exit is Exit.DISK
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_entry_of_another_user_is_refused(
    tmp_path: Path, parent_directory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = (tmp_path / "entry").stat().st_uid
    if owner == 0:
        os.chown(tmp_path / "entry", 12345, -1)
        owner = 12345
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(CRDsError, match=f"belongs to user {owner}, not to "):
        open_entry(tmp_path / "entry", parent_directory)


def test_a_group_may_write_and_a_missing_entry_is_none(tmp_path: Path, parent_directory: int) -> None:
    (tmp_path / "entry").chmod(0o770)
    descriptor = open_entry(tmp_path / "entry", parent_directory)
    assert descriptor is not None
    os.close(descriptor)
    assert open_entry(tmp_path / "absent", parent_directory) is None


def test_an_empty_tarball_is_none(tmp_path: Path) -> None:
    with open_directory_at(tmp_path) as open_root:
        assert not has_tarball(open_root)
        (tmp_path / TARBALL).touch()
        assert not has_tarball(open_root)
        (tmp_path / TARBALL).write_bytes(b"x")
        assert has_tarball(open_root)

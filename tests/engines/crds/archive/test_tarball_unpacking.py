"""Verifying and unpacking tarballs: gzip, limits, written files, and the rules of Karmada's operator."""

import gzip
import hashlib
import os
import stat
import subprocess
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from fleethook.engines.crds.archive import tarball_unpacking
from fleethook.engines.crds.archive.names_content_limits import LIMITS, ArchiveLimits, FileDigest, TarballManifest
from fleethook.engines.crds.archive.tarball_unpacking import SNIFFED_BYTES, _inflate, describe_format, unpack, verify
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from tests.engines.crds.tarballs import build, crd, member, members, pack, release, small, tar


def read(packed: bytes, limits: ArchiveLimits | None = None) -> bytes:
    return _inflate(packed, limits or ArchiveLimits()).getvalue()


def problems(tarball: bytes) -> tuple[str, ...]:
    return tarball_unpacking.verify(tarball).operator_problems


def with_global_header() -> bytes:
    plain = tar((member(name, body), body or b"") for name, body in small().items())
    header = tarfile.TarInfo.create_pax_global_header({"comment": "0" * 40})
    return pack(header + plain)


def without(*names: str) -> bytes:
    return build({name: body for name, body in small().items() if name not in names})


def test_the_operator_can_use_a_release() -> None:
    assert problems(release()) == ()
    assert problems(build(small())) == ()


@pytest.mark.parametrize(
    ("tarball", "text"),
    [
        (with_global_header(), "it has a pax global header, as `git archive` writes it (unknown type: 103)"),
        (
            without("crds/bases/work/"),
            "crds/bases/work/work.karmada.io_works.yaml comes before an entry for its directory crds/bases/work/ (no such file or directory)",
        ),
        (without("crds/"), "crds/bases/ comes before an entry for its directory crds/ (no such file or directory)"),
        (
            pack(
                tar([(member(name, body), body or b"") for name, body in [*small().items(), ("crds/patches/", None)]])
            ),
            "the directory crds/patches/ has two entries (file exists)",
        ),
    ],
)
def test_reasons_why_the_operator_cannot_use_a_tarball_are_named(tarball: bytes, text: str) -> None:
    assert problems(tarball)[0] == text


def test_the_list_of_reasons_is_limited() -> None:
    many = {f"crds/bases/d{number}/a.txt": b"" for number in range(1000)}
    assert len(problems(build({**small(), **many}))) == 16


BASE = "crds/bases/work/work.karmada.io_works.yaml"


Put = Callable[[bytes], Path]


@pytest.fixture
def tarball(tmp_path: Path) -> Put:
    def write(data: bytes) -> Path:
        (tmp_path / "crds.tar.gz").write_bytes(data)
        return tmp_path / "crds.tar.gz"

    return write


@pytest.fixture
def into(tmp_path: Path) -> Path:
    (tmp_path / "entry").mkdir()
    return tmp_path / "entry"


def failure(tarball: Path, *, limits: ArchiveLimits = LIMITS, strict: bool = False) -> tuple[Exit, str]:
    with pytest.raises(CRDsError) as caught:
        verify(tarball, limits=limits, strict=strict)
    return caught.value.exit, str(caught.value)


def contents(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): None if path.is_dir() else path.read_bytes()
        for path in sorted(directory.rglob("*"))
    }


def test_the_manifest_describes_a_release(tarball: Put) -> None:
    data = release()
    found = verify(tarball(data))
    files = {name: body for name, body in members().items() if body is not None}
    assert found == TarballManifest(
        hashlib.sha256(data).hexdigest(),
        len(data),
        {name: FileDigest(len(body), hashlib.sha256(body).hexdigest()) for name, body in files.items()},
        (),
    )
    # The numbers the limits are derived from.
    assert (len(members()), len(files)) == (33, 22)
    assert 75_000 < len(data) < 95_000


def test_unpacking_gives_every_byte_of_a_release(tarball: Put, into: Path) -> None:
    manifest = unpack(tarball(release()), into)
    assert contents(into) == {name.rstrip("/"): body for name, body in members().items()}
    assert set(manifest.files) == {name for name, body in members().items() if body is not None}


def test_written_files_have_fixed_modes_and_the_archives_times(tarball: Put, into: Path) -> None:
    entries = [(member(name, body, mode=0o7777, uid=12, mtime=-5), body or b"") for name, body in small().items()]
    before = os.umask(0o077)
    try:
        unpack(tarball(pack(tar(entries))), into)
    finally:
        os.umask(before)
    found = {str(path.relative_to(into)): path.stat() for path in into.rglob("*")}
    assert {stat.S_IMODE(status.st_mode) for status in found.values() if stat.S_ISDIR(status.st_mode)} == {0o700}
    assert {stat.S_IMODE(status.st_mode) for status in found.values() if stat.S_ISREG(status.st_mode)} == {0o640}
    assert found[BASE].st_mtime == 0
    assert found[BASE].st_uid == os.getuid()


def test_directories_need_no_entries_and_may_have_several(tarball: Put, into: Path) -> None:
    files = [(member(name, body), body) for name, body in small().items() if body is not None]
    twice = (member("crds/bases/", None), b"")
    unpack(tarball(pack(tar([*files, twice, twice]))), into)
    assert contents(into) == {name.rstrip("/"): body for name, body in small().items()}


def test_nothing_is_written_when_the_last_entry_is_wrong(tarball: Put, into: Path) -> None:
    data = build({**small(), "crds/../x": b"x"})
    with pytest.raises(CRDsError, match=r"unclean file path: crds/\.\./x"):
        unpack(tarball(data), into)
    assert contents(into.parent) == {"crds.tar.gz": data, "entry": None}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("crds/" + "n" * 255, None),
        ("crds/" + "n" * 256, "too long a name"),
        ("crds/" + "ü" * 127 + "n", None),
        ("crds/" + "ü" * 128, "too long a name"),
        ("crds/" + "n/" * 14 + "n", None),
        ("crds/" + "n/" * 15 + "n", "too long a path"),
        ("crds/" + f"{'n' * 200}/" * 5 + "n" * 14, None),
        ("crds/" + f"{'n' * 200}/" * 5 + "n" * 15, "too long a path"),
    ],
    ids=["name", "name+1", "bytes", "bytes+1", "depth", "depth+1", "path", "path+1"],
)
def test_names_may_be_as_long_as_file_systems_take(tarball: Put, into: Path, path: str, text: str | None) -> None:
    data = tarball(build({**small(), path: b"x"}))
    if text is None:
        unpack(data, into)
        assert (into / path).read_bytes() == b"x"
    else:
        assert failure(data) == (Exit.ARCHIVE, f"the given file contains {text}: {path}")


def test_existing_files_stay(tarball: Put, into: Path) -> None:
    (into / "crds").mkdir()
    (into / "crds" / "mine").write_text("mine")
    with pytest.raises(CRDsError) as caught:
        unpack(tarball(release()), into)
    assert (caught.value.exit, str(caught.value)) == (Exit.DISK, f"cannot unpack into {into}: File exists")
    assert contents(into) == {"crds": None, "crds/mine": b"mine"}


def test_a_link_in_the_place_of_the_tree_is_not_followed(tarball: Put, into: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (into / "crds").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CRDsError, match="File exists"):
        unpack(tarball(release()), into)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda data: data[:-1], "the gzip stream is not complete: the file is cut off"),
        (lambda data: data[: len(data) // 2], "the gzip stream is not complete: the file is cut off"),
        (lambda _: b"", "the gzip stream is not complete: the file is cut off"),
        (lambda data: data + b"x", "the gzip stream is followed by other data"),
        (lambda data: data + bytes(512), "the gzip stream is followed by other data"),
        (lambda data: data + data, "the gzip stream is followed by another gzip member"),
        (lambda data: data[:-8] + bytes(4) + data[-4:], "Error -3 while decompressing data: incorrect data check"),
        (lambda data: data[:-4] + bytes(4), "Error -3 while decompressing data: incorrect length check"),
        (lambda _: b"Invalid gzip content", "new reader failed. gzip: invalid header"),
        (lambda _: b"<!DOCTYPE html>", "new reader failed. gzip: invalid header"),
        (gzip.decompress, "new reader failed. gzip: invalid header"),
    ],
)
def test_a_damaged_gzip_is_refused(tarball: Put, damage: Callable[[bytes], bytes], text: str) -> None:
    code, found = failure(tarball(damage(build(small()))))
    assert code is Exit.INTEGRITY
    assert found.endswith(text)


def test_trailing_data_is_found_if_a_read_ends_with_the_stream(tarball: Put) -> None:
    data = build(small())
    # A gzip header may carry a name: here one that makes the file as long as one read.
    name = b"n" * (64 * 1024 - len(data) - 1) + b"\0"
    exact = data[:3] + b"\x08" + data[4:10] + name + data[10:]
    assert len(exact) == 64 * 1024
    assert verify(tarball(exact)).files == verify(tarball(data)).files
    assert failure(tarball(exact + b"x")) == (Exit.INTEGRITY, "the gzip stream is followed by other data")
    assert failure(tarball(exact + data)) == (Exit.INTEGRITY, "the gzip stream is followed by another gzip member")


def test_all_that_is_written_is_on_disk_when_it_returns(
    tarball: Put, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    unpack(tarball(release()), into)
    assert synced == {path.stat().st_ino for path in (into, *into.rglob("*"))}


def test_damage_that_looks_like_an_invalid_tar_is_reported_as_damage(tarball: Put) -> None:
    plain = bytearray(gzip.decompress(build(small())))
    plain[0] ^= 0xFF  # a wrong checksum for the tar layer, and a wrong one for gzip
    wrong = pack(bytes(plain))
    assert failure(tarball(wrong))[0] is Exit.ARCHIVE
    assert failure(tarball(wrong[:-8] + bytes(8)))[0] is Exit.INTEGRITY


def test_a_tarball_beyond_the_download_limit_is_not_read(tarball: Put) -> None:
    data = build(small())
    assert failure(tarball(data), limits=ArchiveLimits(tarball_bytes=len(data) - 1)) == (
        Exit.LIMIT,
        f"{tarball(data)} has more than {len(data) - 1} bytes",
    )
    verify(tarball(data), limits=ArchiveLimits(tarball_bytes=len(data)))


def test_the_unpacked_limit_applies_to_the_complete_tar(tarball: Put) -> None:
    data = build(small())
    size = len(gzip.decompress(data))
    verify(tarball(data), limits=ArchiveLimits(unpacked_bytes=size))
    assert failure(tarball(data), limits=ArchiveLimits(unpacked_bytes=size - 1)) == (
        Exit.LIMIT,
        f"the tarball holds more than {size - 1} bytes",
    )


def test_the_ratio_counts_above_a_mebibyte(tarball: Put) -> None:
    zeros = {**small(), "crds/zeros": bytes(1000 * 1024)}
    verify(tarball(build(zeros)))
    zeros["crds/zeros"] = bytes(1024 * 1024)
    code, text = failure(tarball(build(zeros)))
    assert code is Exit.LIMIT
    assert text == "the tarball holds more than 1048576 bytes, over 100 times its own size"
    verify(tarball(build(zeros)), limits=ArchiveLimits(ratio=2000))


def test_there_may_be_as_many_entries_as_the_limit(tarball: Put) -> None:
    verify(tarball(build(small())), limits=ArchiveLimits(entries=len(small())))
    assert failure(tarball(build(small())), limits=ArchiveLimits(entries=len(small()) - 1)) == (
        Exit.LIMIT,
        f"the tarball has more than {len(small()) - 1} entries",
    )


def test_a_bomb_is_inflated_no_further_than_its_limit() -> None:
    bomb = zlib.compress(bytes(50_000_000), 9, wbits=31)
    tracemalloc.start()
    with pytest.raises(CRDsError) as caught:
        read(bomb, LIMITS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.exit is Exit.LIMIT
    assert LIMITS.max_unpacked(len(bomb)) == 100 * len(bomb) < 5_000_000
    assert peak < 12_000_000


def headers(*blocks: bytes) -> bytes:
    plain = tar((member(name, body), body or b"") for name, body in small().items()).rstrip(b"\0")
    return pack(plain + bytes(-len(plain) % 512) + b"".join(blocks))


def header(kind: bytes, size: bytes, name: bytes = b"crds/x") -> bytes:
    """A header block with any text as its size."""
    block = bytearray(member(name.decode(), b"", kind=kind).tobuf(tarfile.GNU_FORMAT))
    block[124:136] = size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


PAX_SIZE = b"15 size=-99999\n".ljust(512, b"\0")
END = bytes(1024)


@pytest.mark.parametrize(
    ("blocks", "exit_code"),
    [
        # CVE-2025-8194: a size that leads back, in the header or in its attributes.
        ((header(b"0", b"\xff" * 12), END), Exit.ARCHIVE),
        ((header(b"x", b"00000000017\0"), PAX_SIZE, header(b"0", b"00000000000\0"), END), Exit.ARCHIVE),
        # CVE-2024-6232: attributes that take long.
        ((header(b"x", b"00000100000\0"), b"1" * 32768, header(b"0", b"00000000000\0"), END), Exit.LIMIT),
        ((header(b"L", b"00000100000\0"), b"n" * 32768, header(b"0", b"00000000000\0"), END), Exit.LIMIT),
        ((*[header(b"x", b"00000000000\0")] * 1500, header(b"0", b"00000000000\0"), END), Exit.ARCHIVE),
        ((*[header(b"0", b"00000000000\0", b"crds/%d" % n) for n in range(2048)], END), Exit.LIMIT),
        ((header(b"0", b"00000010000\0"), END), Exit.ARCHIVE),
        ((header(b"0", b"00000000000\0")[:-1] + b"x", END), Exit.ARCHIVE),
        ((b"x" * 512, END), Exit.ARCHIVE),
        ((), Exit.ARCHIVE),
    ],
    ids=["negative", "pax-negative", "pax-long", "name-long", "pax-chain", "many", "cut", "checksum", "text", "no-end"],
)
def test_hostile_headers_are_refused_within_the_limits(blocks: tuple[bytes, ...], exit_code: Exit) -> None:
    limits = ArchiveLimits(ratio=10_000)
    with pytest.raises(CRDsError) as caught:
        verify(headers(*blocks), limits=limits)
    assert caught.value.exit is exit_code


@pytest.mark.parametrize("make", [lambda _: None, Path.mkdir, os.mkfifo])
def test_a_pipe_is_refused_without_waiting(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "x")
    assert failure(tmp_path / "x")[0] is Exit.DISK


def test_warnings_are_errors_when_strict(tarball: Put) -> None:
    path = tarball(build({**small(), "crds/bases/x.yml": b"", "crds/bases/y.yaml": crd("ys", "example.com")}))
    assert verify(path).warnings == (
        "crds/bases/x.yml is not applied: only files named *.yaml are",
        "crds/bases/y.yaml has a CRD of group example.com, which is not a group of Karmada",
    )
    assert failure(path, strict=True) == (Exit.ARCHIVE, "; ".join(verify(path).warnings))


def test_tars_of_tarfile_are_read_alike_in_each_format(tarball: Put) -> None:
    more = {**small(), f"crds/{'n' * 200}/{'m' * 120}.txt": b"long", "crds/ünï.txt": b"named"}
    entries = [(member(name, body), body or b"") for name, body in more.items()]
    gnu, pax = (verify(tarball(pack(tar(entries, format=kind)))) for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
    assert gnu.files == pax.files
    assert set(gnu.files) == {name for name, body in more.items() if body is not None}


@pytest.mark.parametrize("form", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_tars_of_gnu_tar_are_read_in_each_format(tmp_path: Path, tarball: Put, form: str) -> None:
    long = f"crds/{'d' * 60}/{'n' * 25 if form == 'v7' else 'n' * 90}.txt"
    before = unpack(tarball(build({**small(), long: b"long"})), tmp_path)
    command = ["tar", f"--format={form}", "--owner=2000000", "--group=2000000", "-czf", "again.tar.gz", "crds"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert verify(tmp_path / "again.tar.gz").files == before.files


@pytest.mark.parametrize(
    ("beginning", "text"),
    [
        (build(small()), ""),
        (b"", "it is empty"),
        (b"\xef\xbb\xbf <!DOCTYPE html>", "it looks like an HTML page, perhaps a login or an error page"),
        (tar([(member("crds/"), b"")]), "it looks like a plain tar, perhaps decompressed by a proxy"),
        (b"PK\x03\x04\x14", "it begins with 50 4b 03 04"),
    ],
)
def test_the_likely_format_of_other_files_is_named(beginning: bytes, text: str) -> None:
    assert describe_format(beginning[:SNIFFED_BYTES]) == text

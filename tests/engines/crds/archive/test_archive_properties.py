"""Properties of all tarballs: no file is written elsewhere, no limit is exceeded, and damage is detected."""

import collections
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.crds.archive.names_content_limits import ArchiveLimits, TarballManifest
from fleethook.engines.crds.archive.tarball_unpacking import unpack, verify
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from tests.engines.crds.tarballs import build, crd, member, pack, small, tar
from tests.hypothesis_profiles import examples

TIGHT = ArchiveLimits(
    tarball_bytes=8192, unpacked_bytes=32768, file_bytes=4096, entries=16, ratio=30, ratio_from_bytes=16384
)
# Where in a header the fields are: name, mode, size, time, checksum, type, link name, magic, prefix.
FIELDS = [(0, 100), (100, 8), (124, 12), (136, 12), (148, 8), (156, 1), (157, 100), (257, 8), (345, 155)]
VALUES = [
    b"\0", b"\xff" * 12, b"\x80" + bytes(11), b"\x80" + b"\xff" * 11, b"77777777777\0", b"00000010001\0", b"-1\0", b"0", b"1",
    b"2", b"5", b"7", b"L", b"K", b"x", b"g", b"S", b"../../outside\0", b"/tmp/outside\0", b"crds/../../outside\0",
    b"crds/link/outside\0", b"crds/link\0", b"..\0", b"ustar\0" + b"00", b"ustar  \0", b"crds\0", b"crds/bases\0", b"\xc3\x28",
]  # fmt: skip
NAMES = [
    "../outside", "crds/../../outside", "crds/./outside", "crds/link", "crds/link/outside", "crds/bases", "crds/more/file",
    "crds/more", "crds/more/", "crds/" + "n" * 256, "crds/" + "n/" * 20 + "n", "crds/a\\b", "crds/a\nb", "crds/\u202ename",
    "./crds/x", "crds", "", "/", "crds/bases/x.yaml", "crds/patches/webhook_in_works.yaml", "crds/patches/webhook_in_x.yaml",
]  # fmt: skip
BODIES = [
    b"", b"outside", b"path=../../outside\n", b"25 path=../../outside.txt\n", b"21 path=crds/renamed\n", b"12 size=600\n",
    b"25 GNU.sparse.size=100000\n", b"a: [", bytes(4096), bytes(4097), crd("xs", "x.karmada.io"), crd("works", "work.karmada.io"),
]  # fmt: skip


@pytest.fixture
def outer(tmp_path: Path) -> Path:
    (tmp_path / "outer" / "entry").mkdir(parents=True)
    return tmp_path / "outer"


def attempt(read: Callable[[], TarballManifest]) -> TarballManifest | Exit:
    try:
        return read()
    except CRDsError as error:
        return error.exit


def mutated(chance: random.Random, outer: Path) -> bytes:
    """A tarball that began as a good one: entries added, taken, moved, fields and bytes overwritten, packed well or not."""
    entries = [(member(name, body), body or b"") for name, body in small().items()]
    for _ in range(chance.randrange(3)):
        body = chance.choice(BODIES)
        kind = chance.choice([b"0", b"0", b"0", b"1", b"2", b"5", b"L", b"K", b"x", b"x", b"g", b"S", b"3", b"\0"])
        name = chance.choice([*NAMES, f"{outer}/outside"])
        body = b"" if kind in b"1235" and chance.random() < 0.9 else body
        entries.insert(chance.randrange(len(entries) + 1), (member(name, body, kind=kind, linkname=str(outer)), body))
    if chance.random() < 0.1:
        chance.shuffle(entries)
    if chance.random() < 0.1:
        entries *= chance.randrange(1, 4)
    plain = bytearray(tar(entries))
    if chance.random() < 0.5:
        _overwrite(chance, plain)
    return _packed(chance, bytes(plain))


def _overwrite(chance: random.Random, plain: bytearray) -> None:
    block = 512 * chance.randrange(max(len(plain) // 512 // 2, 1))
    start, length = chance.choice(FIELDS)
    value = chance.choice(VALUES)[:length]
    plain[block + start : block + start + len(value)] = value
    if chance.random() < 0.8:
        plain[block + 148 : block + 156] = b" " * 8
        plain[block + 148 : block + 156] = b"%06o\0 " % sum(plain[block : block + 512])


def _packed(chance: random.Random, plain: bytes) -> bytes:
    damage = chance.random()
    if damage < 0.05:
        return pack(plain[: chance.randrange(len(plain))])
    if damage < 0.1:
        return pack(plain + bytes(chance.choice([1, 512, 40_000])))
    data = bytearray(pack(plain))
    if damage < 0.15:
        return bytes(data[: chance.randrange(len(data))])
    if damage < 0.2:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    if damage < 0.22:
        data += chance.choice([b"\0", b"more", bytes(data)])
    return bytes(data)


@pytest.mark.parametrize("seed", range(examples(20)))
def test_no_byte_lands_outside_and_no_limit_is_passed(seed: int, outer: Path) -> None:
    chance = random.Random(seed)
    tarball, into = outer / "crds.tar.gz", outer / "entry"
    outcomes: collections.Counter[str] = collections.Counter()
    for _ in range(500):
        tarball.write_bytes(mutated(chance, outer))
        manifest = attempt(lambda: unpack(tarball, into, limits=TIGHT))
        if isinstance(manifest, Exit):
            outcomes[manifest.name] += 1
            assert list(into.iterdir()) == []
        else:
            outcomes["OK"] += 1
            written = {path.relative_to(into).as_posix() for path in into.rglob("*") if path.is_file()}
            assert written == set(manifest.files)
            assert all(size <= TIGHT.file_bytes for size, _ in manifest.files.values())
            assert sum(size for size, _ in manifest.files.values()) <= TIGHT.unpacked_bytes
            assert len(list(into.rglob("*"))) <= 2 * TIGHT.entries  # with the parents of entries
            assert [path.name for path in into.iterdir()] == ["crds"]
            shutil.rmtree(into / "crds")
        assert sorted(path.name for path in outer.iterdir()) == ["crds.tar.gz", "entry"]
    assert sorted(path.name for path in outer.parent.iterdir()) == ["outer"]
    # All that can happen does: otherwise nothing has been looked at.
    assert set(outcomes) == {"OK", "INTEGRITY", "ARCHIVE", "LIMIT"}


def test_every_cut_is_found(tmp_path: Path) -> None:
    tarball = tmp_path / "crds.tar.gz"
    data = build(small())
    for length in range(len(data)):
        tarball.write_bytes(data[:length])
        with pytest.raises(CRDsError) as caught:
            verify(tarball)
        assert (caught.value.exit, str(caught.value)) == (
            Exit.INTEGRITY,
            "the gzip stream is not complete: the file is cut off",
        )


@given(st.binary(max_size=3000), st.booleans())
def test_any_bytes_are_an_answer(tmp_path_factory: pytest.TempPathFactory, data: bytes, packed: bool) -> None:
    tarball = tmp_path_factory.getbasetemp() / "any.tar.gz"
    tarball.write_bytes(pack(data) if packed else data)
    with pytest.raises(CRDsError) as caught:
        verify(tarball)
    assert caught.value.exit is (Exit.ARCHIVE if packed else Exit.INTEGRITY)

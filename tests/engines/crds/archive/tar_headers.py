"""Headers of tars made by hand, as no tool would write them, and mutated ones."""

import random
import tarfile
from collections.abc import Iterable

from tests.engines.crds.tarballs import member

END = bytes(1024)
PLACES = {
    "name": 0, "mode": 100, "uid": 108, "gid": 116, "size": 124, "mtime": 136, "checksum": 148, "kind": 156,
    "link": 157, "magic": 257, "major": 329, "minor": 337, "prefix": 345, "ctime": 357, "star times": 476, "trailer": 508,
}  # fmt: skip
SIZES = {"name": 100, "size": 12, "mtime": 12, "kind": 1, "link": 100, "prefix": 155, "ctime": 12, "trailer": 4}


def header(name: str = "crds/x", **fields: bytes) -> bytes:
    """A ustar header with some fields replaced, its checksum right unless it is replaced as well."""
    block = bytearray(member(name, b"").tobuf(tarfile.USTAR_FORMAT))
    for field, value in fields.items():
        block[PLACES[field] : PLACES[field] + len(value)] = value
    return bytes(block) if "checksum" in fields else summed(block)


def summed(block: bytes | bytearray) -> bytes:
    """The block with its right checksum."""
    counted = bytearray(block)
    counted[148:156] = b" " * 8
    counted[148:156] = b"%06o\0 " % sum(counted)
    return bytes(counted)


def pax(*records: bytes, kind: bytes = b"x") -> bytes:
    """A header of attributes: pax records, or the text of a GNU header of kind ``L`` or ``K``."""
    body = b"".join(records)
    return header("attributes", kind=kind, size=b"%011o\0" % len(body)) + body + bytes(-len(body) % 512)


def record(key: bytes, value: bytes) -> bytes:
    """A record of a pax header."""
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest) + 1
    while len(b"%d" % length) + len(rest) != length:
        length = len(b"%d" % length) + len(rest)
    return b"%d" % length + rest


# --- Mutations --------------------------------------------------------------------------------------------------------

NAMES = (b"crds/a", b"crds/bases/evil.yaml", b"a\0b", b"", b"crds/d/", b"\xc3\xa4", b"\xff", b"/", b"n" * 120)
NUMBERS = (
    b"00000000000\0", b"00000000005\0", b"          5 ", b" 5", b"5\0", b"\0\0\0\0", b"7777777\0", b"-0000001\0", b"0x5\0",
    b"5 5\0", b"8\0", b"+5\0", b"0_5\0", b"\x80" + bytes(10) + b"\5", b"\x80" + bytes(6) + b"\5", b"\xff" * 12,
    b"\xff" * 8, b"\xbf" + b"\xff" * 11, b"\x80\0\0\0\xff\0\0\0\0\0\0\0", b"777777777777", b"77777777", b"\x81" * 12,
)  # fmt: skip
MAGICS = (b"ustar\00000", b"ustar  \0", b"ustar   ", b"ustar\0 \0", b"\0" * 8, b"USTAR\00000", b"ustar 00")
KINDS = (b"0", b"\0", b"5", b"0", b"0", b"1", b"2", b"3", b"6", b"7", b"L", b"K", b"x", b"g", b"S", b"D", b"V", b"\xff")
PREFIXES = (b"crds", b"evil\0", b"00000000000\0", b"\0" * 155, b"14200000000 ", b"crds/\xff", b"\x80" + bytes(11))
KEYS = (
    b"path", b"path", b"linkpath", b"size", b"size", b"uid", b"gid", b"mtime", b"atime", b"uname", b"comment", b"path\0",
    b"GNU.sparse.major", b"GNU.sparse.minor", b"GNU.sparse.name", b"GNU.sparse.map", b"GNU.sparse.realsize", b"hdrcharset",
    b"SCHILY.xattr.x", b"a",
)  # fmt: skip
VALUES = (
    *NAMES,
    b"0",
    b"5",
    b"05",
    b"+5",
    b"-5",
    b"512",
    b"1.5",
    b"1.x",
    b"9" * 19,
    b"9" * 25,
    b"1",
    b"0,1",
    b"BINARY",
)
RECORDS = (
    b"6 a=b\n",
    b"7 a=b\n",
    b"5 a=b\n",
    b"06 a=b\n",
    b"+6 a=b\n",
    b" 6 a=b\n",
    b"6 =bc\n",
    b"6 abc\n",
    b"6 a=b\0",
    b"0 a=b\n",
    b"\0",
)

Unit = tuple[bytes, bytes]
"""A header and the bytes behind it."""


def base(chance: random.Random) -> list[Unit]:
    """The members of a good tar in one of tarfile's formats."""
    form = chance.choice([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    long = "crds/" + "d" * 90 + "/" + "n" * chance.choice([4, 60, 98])
    units: list[Unit] = []
    for name, body in (("crds/", None), ("crds/one.yaml", b"hello"), (long, b"x" * chance.choice([0, 512, 700]))):
        block = member(name, body).tobuf(form, "utf-8", "surrogateescape")
        # A long name is a header with a body of its own in front.
        units.append((block[:512], block[512:] + (body or b"") + bytes(-len(body or b"") % 512)))
    return units


def mutated(chance: random.Random) -> bytes:
    """A tar with one to three mutations."""
    units = base(chance)
    for _ in range(chance.choice([1, 1, 1, 2, 2, 3])):
        chance.choice(MUTATIONS)(chance, units)
    tail = chance.choice([END, END, END, END, END, END, END, bytes(512), b"", bytes(4096)])
    return b"".join(head + body for head, body in units) + tail


def _overwrite(chance: random.Random, units: list[Unit]) -> None:
    place, values = chance.choice(
        [("name", NAMES), ("link", NAMES), ("prefix", PREFIXES), ("ctime", PREFIXES), ("magic", MAGICS), ("magic", MAGICS),
         ("kind", KINDS), ("kind", KINDS), ("size", NUMBERS), ("size", NUMBERS), ("mtime", NUMBERS), ("mode", NUMBERS),
         ("uid", NUMBERS), ("gid", NUMBERS), ("major", NUMBERS), ("minor", NUMBERS), ("star times", NUMBERS),
         ("trailer", (b"tar\0",))]
    )  # fmt: skip
    value = chance.choice(values)[: SIZES.get(place, 8)]
    _write(chance, units, PLACES[place], value)


def _flip(chance: random.Random, units: list[Unit]) -> None:
    _write(chance, units, chance.randrange(512), chance.randbytes(chance.choice([1, 1, 2, 8])))


def _write(chance: random.Random, units: list[Unit], place: int, value: bytes) -> None:
    index = chance.randrange(len(units))
    head, body = units[index]
    block = bytearray(head)
    block[place : place + len(value)] = value
    units[index] = (summed(block[:512]) if chance.random() < 0.97 else bytes(block[:512]), body)


def _insert(chance: random.Random, units: list[Unit]) -> None:
    kind = chance.choice([b"x", b"x", b"x", b"g", b"L", b"K"])
    text = _records(chance) if kind in b"xg" else [chance.choice(NAMES) + chance.choice([b"", b"\0", b"\0x"])]
    block = pax(*text, kind=kind)
    units.insert(chance.randrange(len(units) + 1), (block[:512], block[512:]))


def _records(chance: random.Random) -> Iterable[bytes]:
    for _ in range(chance.choice([1, 1, 2, 3])):
        yield chance.choice(RECORDS) if chance.random() < 0.15 else record(chance.choice(KEYS), chance.choice(VALUES))


def _move(chance: random.Random, units: list[Unit]) -> None:
    unit = units.pop(chance.randrange(len(units)))
    for _ in range(chance.choice([0, 1, 1, 2])):
        units.insert(chance.randrange(len(units) + 1), unit)
    if not units:
        units.append(unit)


MUTATIONS = (_overwrite, _overwrite, _overwrite, _insert, _insert, _flip, _flip, _move)

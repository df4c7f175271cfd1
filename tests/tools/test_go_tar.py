"""Our tar reader beside Go's archive/tar, by which Karmada's operator reads: an accepted tar is the same to both."""

import collections
import hashlib
import io
import json
import os
import random
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.archive import tar
from fleethook.engines.crds.archive.crd_content import LIMITS
from fleethook.engines.crds.crds_errors import CRDsError
from tests.engines.crds.archive.tar_headers import END, header, mutated, pax, record
from tests.programs import require_go

MUTATED = 10_000

Members = list[tuple[bytes, int, int, str]]
"""Name, type, size and digest of each."""


@pytest.fixture(scope="module")
def go_tar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = require_go()
    program = tmp_path_factory.mktemp("go") / "go-tar"
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
    command = [str(go), "build", "-o", str(program), "."]
    subprocess.run(command, cwd=Path(__file__).parent / "go_tar", check=True, env=environment)
    return program


def ours(plain: bytes) -> Members | None:
    """The members that we see; None if the tar is refused."""
    try:
        found = list(tar.entries(io.BytesIO(plain).read, LIMITS))
    except CRDsError:
        return None
    return [(one.name.encode(), one.kind, len(one.body), hashlib.sha256(one.body).hexdigest()) for one in found]


def theirs(program: Path, tars: Sequence[bytes]) -> list[dict[str, Any]]:
    asked = b"".join(struct.pack(">I", len(plain)) + plain for plain in tars)
    answered = subprocess.run([program], input=asked, stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in answered.splitlines()]


def members(listing: dict[str, Any]) -> Members | None:
    """The members that Go sees; None if it refuses the tar."""
    if listing["error"]:
        return None
    return [(bytes.fromhex(one["name"]), one["kind"], one["size"], one["sha256"]) for one in listing["members"]]


def links(listing: dict[str, Any]) -> list[str]:
    """The link targets of files and directories."""
    return [one["link"] for one in listing["members"] if one["kind"] in (tar.FILE, tar.DIRECTORY) and one["link"]]


def test_accepted_tars_are_read_alike_by_go(go_tar: Path) -> None:
    chance = random.Random(20)
    tars = [mutated(chance) for _ in range(MUTATED)]
    outcomes: collections.Counter[str] = collections.Counter()
    for plain, listing in zip(tars, theirs(go_tar, tars), strict=True):
        mine, other = ours(plain), members(listing)
        if mine is None:
            outcomes["refused by both" if other is None else "refused by us alone"] += 1
            continue
        outcomes["accepted"] += 1
        assert mine == other, plain.hex()
        assert links(listing) == [], plain.hex()
    # Otherwise nothing has been compared.
    assert min(outcomes.values()) > MUTATED // 20, outcomes


@pytest.mark.parametrize(
    ("plain", "name"),
    [
        (pax(b"crds/bases/evil.yaml", kind=b"L") + pax(record(b"path", b"crds/a")) + header(), "crds/bases/evil.yaml"),
        (header("a", prefix=b"crds/evil", magic=b"ustar  \0"), "crds/evil/a"),
        (pax(record(b"path", b"crds/b"), record(b"path", b"")) + header(), "crds/x"),
        (pax(record(b"path", b"crds/b")) + pax(record(b"mtime", b"1")) + header(), "crds/x"),
        (pax(record(b"path", b"crds/b")) + pax(record(b"comment", b"x"), kind=b"g") + header(), "crds/x"),
        (header(prefix=b"a" * 131 + b"11111111\0", trailer=b"tar\0"), "a" * 131 + "/crds/x"),
    ],
    ids=["L-then-path", "gnu-prefix", "path-emptied", "second-pax", "global-between", "star"],
)  # fmt: skip
def test_names_that_go_alone_would_see_are_refused(go_tar: Path, plain: bytes, name: str) -> None:
    (listing,) = theirs(go_tar, [plain + END])
    found = members(listing)
    assert found is not None
    assert found[-1][0] == name.encode()
    assert ours(plain + END) is None

"""Verdicts about entries of CRD tarballs, compared with the Go operator, with documented differences."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.engines.crds.archive.names_content_limits import name_patched_crd
from fleethook.engines.crds.archive.tarball_unpacking import unpack
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError
from tests.engines.crds.tarballs import build, member, pack, small, tar

CASES = yaml.safe_load((Path(__file__).parent / "crds_archive.yaml").read_text())
TYPES = {
    "reg": b"0",
    "hardlink": b"1",
    "symlink": b"2",
    "character": b"3",
    "block": b"4",
    "dir": b"5",
    "fifo": b"6",
    "cont": b"7",
    "sparse": b"S",
    "pax_global": b"g",
}


def by_id(cases: list[dict[str, Any]]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


def outcome(data: bytes, directory: Path) -> str | None:
    """Unpack a tarball and return the error; assert a complete tree after success and no files after failure."""
    tarball, into = directory / "crds.tar.gz", directory / "entry"
    tarball.write_bytes(data)
    into.mkdir()
    try:
        manifest = unpack(tarball, into)
    except CRDsError as error:
        assert list(into.iterdir()) == []
        assert sorted(path.name for path in directory.iterdir()) == ["crds.tar.gz", "entry"]
        return f"{error.exit.name}: {error}"
    written = {path.relative_to(into).as_posix() for path in into.rglob("*") if path.is_file()}
    assert written == set(manifest.files)
    return None


@by_id(CASES["headers"])
def test_an_entry(case: dict[str, Any], tmp_path: Path) -> None:
    entries = [(member(name, body), body or b"") for name, body in small().items()]
    entries.append((member(case["entry"], b"", kind=TYPES[case["type"]]), b""))
    text = case.get("ours", case["upstream"])
    found = outcome(pack(tar(entries)), tmp_path)
    # Our advice follows upstream's text.
    wanted = None if text is None else f"ARCHIVE: {text}"
    assert found == wanted or str(found).partition(" (")[0] == wanted


@by_id(CASES["archives"])
def test_an_archive(case: dict[str, Any], tmp_path: Path) -> None:
    found, ours = outcome(tarball(**case["given"]), tmp_path), case["ours"]
    if ours is not None and ours.endswith("…"):
        assert str(found).startswith(ours.removesuffix("…"))
    else:
        assert found == ours


@pytest.mark.parametrize("case", CASES["patched"], ids=[case["file"] for case in CASES["patched"]])
def test_the_crd_that_a_patch_is_for(case: dict[str, str]) -> None:
    assert name_patched_crd(f"crds/patches/{case['file']}") == case["crd"]


def tarball(**given: Any) -> bytes:
    match given:
        case {"bytes": text}:
            return text.encode()
        case {"without": "directories"}:
            return build({name: body for name, body in small().items() if body is not None})
        case {"entries": pairs}:
            more = [(member(name, text.encode()), text.encode()) for name, text in pairs]
            return pack(tar([(member(name, body), body or b"") for name, body in small().items()] + more))
        case {"behind": text}:
            return build(small()) + text.encode()
        case {"zeros": count}:
            return build({**small(), "crds/zeros": bytes(count)})
        case {"cut": count}:
            return build(small())[:-count]
        case _:
            raise AssertionError(given)

"""Findings as a SARIF log (OASIS, Static Analysis Results Interchange Format 2.1.0)."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

from app import __version__
from app.model.json import JSONObject

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
# Code scanning shows a finding as the same one as long as its fingerprint stays, also when its line moves.
_FINGERPRINT: Final = "fleethook/v1"
_ROOT: Final = "%SRCROOT%"


class Finding(Protocol):
    """A finding; `app.cli.annotations.Annotation` describes the members."""

    @property
    def level(self) -> str: ...  # noqa: D102
    @property
    def code(self) -> str: ...  # noqa: D102
    @property
    def subject(self) -> str: ...  # noqa: D102
    @property
    def text(self) -> str: ...  # noqa: D102
    @property
    def file(self) -> str: ...  # noqa: D102
    @property
    def line(self) -> int: ...  # noqa: D102


def build_log(findings: Sequence[Finding]) -> JSONObject:
    """Return the log of one run of the program, with these findings as its results."""
    codes = sorted({one.code for one in findings})
    driver: JSONObject = {"name": "fleethook", "version": __version__, "rules": [{"id": code} for code in codes]}
    results = [_build_result(one, codes) for one in findings]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _build_result(one: Finding, codes: list[str]) -> JSONObject:
    location: JSONObject = {"logicalLocations": [{"fullyQualifiedName": one.subject, "kind": "object"}]}
    if one.file:
        physical: JSONObject = {"artifactLocation": _locate(one.file)}
        if one.line:
            physical["region"] = {"startLine": one.line}
        location["physicalLocation"] = physical
    identity = f"{one.code}\0{one.subject}\0{one.text}"
    return {
        "ruleId": one.code,
        "ruleIndex": codes.index(one.code),
        "level": one.level,
        "message": {"text": f"{one.subject}: {one.text}"},
        "locations": [location],
        "partialFingerprints": {_FINGERPRINT: hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()},
    }


def _locate(file: str) -> JSONObject:
    """Return the location of a file: relative to the working directory, which is usually a repository's root."""
    path, root = Path(file).absolute(), Path.cwd()
    if path.is_relative_to(root):
        return {"uri": quote(path.relative_to(root).as_posix()), "uriBaseId": _ROOT}
    return {"uri": path.as_uri()}

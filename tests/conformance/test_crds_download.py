"""The cases of crds_download.yaml, against an origin on loopback."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.engines.crds.download.download_and_mirrors import Downloaded
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from tests.engines.crds.downloading import BODY, fetched
from tests.engines.crds.origin import Answer, Origin, proxying, says, serving

CASES = yaml.safe_load((Path(__file__).parent / "crds_download.yaml").read_text())["download"]


def answer_of(case: dict[str, Any]) -> Answer:
    said = dict(case.get("answer", {}))
    body = said.pop("body", "")
    return says(BODY if body == "tarball" else body.encode(), **said)


@contextlib.contextmanager
def environment(case: dict[str, Any], origin: Origin, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with contextlib.ExitStack() as stack:
        if case.get("proxied"):
            monkeypatch.setenv("HTTP_PROXY", stack.enter_context(proxying(origin)).url)
        yield


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_download(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into, expect = tmp_path / "new.tar.gz", case["expect"]
    told: list[tuple[int, int | None]] = []
    with (
        serving(answer_of(case), directory=tmp_path if "tls" in case else None) as origin,
        environment(case, origin, monkeypatch),
    ):
        given = {"url": case.get("url", origin.url), **case.get("source", {})}
        given |= {} if case.get("trusted") else {"ca_pem": b""}
        outcome = _outcome(origin, into, given, told)
    assert len(origin.asked) == expect["requests"]
    if isinstance(outcome, CRDsError):
        assert (outcome.exit, outcome.transient) == (Exit[expect["exit"]], expect.get("transient", False))
        assert not into.exists()
        return
    assert expect["file"] == "tarball"
    assert (into.read_bytes(), outcome.size) == (BODY, len(BODY))
    if "progress" in expect:
        assert told[-1] == (len(BODY), len(BODY))


def _outcome(origin: Origin, into: Path, given: dict[str, Any], told: list[Any]) -> Downloaded | CRDsError:
    try:
        return fetched(origin, into, progress=lambda *now: told.append(now), **given)
    except CRDsError as error:
        return error

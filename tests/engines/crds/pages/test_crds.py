"""The pages about CRD tarballs, on a real cache."""

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from fleethook.cluster.store import key_of
from fleethook.console.attention_lines import AttentionLine
from fleethook.console.console_server import create_console
from fleethook.engines.crds.cache.cache_entry import RECORD, TARBALL, CacheRecord, ListedEntry, State
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.instance.source_and_secrets import TarballSource
from fleethook.engines.crds.pages.crds import (
    ConditionView,
    InstanceView,
    choose_step,
    compare_pin,
    describe_instance,
    describe_instances,
    inspect_entries,
    list_instance_lines,
    read_content,
)
from tests.cli.commands import invoke
from tests.console.crd_cache import CHANGED, FilledCache, fill_cache, karmada
from tests.console.pages.reading import HOSTILE, Page, get, read
from tests.console.visits import console_of, make_context, visit

URL = "https://h/crds.tar.gz"
SHA = "ab" * 32
NOW = datetime(2026, 6, 1, tzinfo=UTC)


def describe(document: dict[str, Any]) -> InstanceView:
    return describe_instance(key_of(document), document)


def listed(state: State = "ready", sha256: str = SHA) -> ListedEntry:
    record = CacheRecord(
        url=URL, final_url=URL, sha256=sha256, size=1, etag="", last_modified="", fetched_at=NOW, asked_at=NOW,
        warnings=(),
    )  # fmt: skip
    return ListedEntry(
        TarballSource(URL).key, Path("x"), state, 1, NOW, record if state in ("ready", "changed") else None
    )


def test_an_http_source_has_the_key_of_its_entry_policy_and_pin() -> None:
    view = describe(karmada(url=URL, sha256=SHA.upper(), crdDownloadPolicy="Always"))
    assert (view.source, view.key, view.policy, view.pin) == (URL, TarballSource(URL).key, "Always", SHA)
    assert (view.namespace, view.name, view.problem) == ("test", "one", "")


def test_without_a_source_the_operator_chooses_the_release() -> None:
    document = karmada(sha256=SHA)
    document["spec"]["components"] = {"karmadaWebhook": {"imageTag": "v1.18.0"}}
    view = describe(document)
    assert (view.key, view.pin, view.policy) == ("", SHA, "IfNotPresent")
    assert view.source == "the release of Karmada's operator; the images are of v1.18.0"
    assert describe(karmada()).source == "the release of Karmada's operator"
    assert "v0.0.0" not in str(describe(karmada()))


@pytest.mark.parametrize(
    ("fields", "source"),
    [
        ({"localSource": {"path": "/a b"}}, "file:///a%20b"),
    ],
)
def test_files_and_config_maps_have_entries_too(fields: dict[str, Any], source: str) -> None:
    view = describe(karmada(**fields))
    assert (view.source, view.key) == (source, TarballSource(source).key)


def test_an_invalid_instance_shows_the_problem() -> None:
    view = describe(karmada(url="ftp://h/\u202e", sha256="x"))
    assert "spec.crdTarball.httpSource" in view.problem
    assert "\u202e" not in view.problem
    assert (view.source, view.key, view.policy) == ("", "", "")


@pytest.mark.parametrize(
    ("document", "entry", "state"),
    [
        (karmada(url=URL), listed(), "none"),
        (karmada(sha256=SHA), listed(), "unknown"),
        (karmada(url=URL, sha256=SHA), None, "missing"),
        (karmada(url=URL, sha256=SHA), listed("changed"), "untrusted"),
        (karmada(url=URL, sha256=SHA), listed("bare"), "untrusted"),
        (karmada(url=URL, sha256=SHA), listed("refused"), "untrusted"),
        (karmada(url=URL, sha256=SHA), listed(), "match"),
        (karmada(url=URL, sha256=SHA), listed(sha256="cd" * 32), "mismatch"),
    ],
)
def test_a_pin_is_compared_with_verified_entries_only(document: Any, entry: ListedEntry | None, state: str) -> None:
    assert compare_pin(describe(document), {entry.key: entry} if entry else {}) == state


def test_instances_that_need_attention_come_first() -> None:
    documents = [karmada("b", url=URL), karmada("a"), karmada("z", url="ftp://h/x")]
    assert [one.name for one in describe_instances({key_of(one): one for one in documents})] == ["z", "a", "b"]


BROKEN = ConditionView("Ready", "False", "Failed", "the tarball is damaged", "2026-11-25T21:37:00Z")


@pytest.mark.parametrize(
    ("tarball", "entry", "command"),
    [
        ({"url": URL, "sha256": SHA}, None, f"fleethook crds --data-dir D fetch {URL} --policy Always --sha256 {SHA}"),
        ({"url": URL}, listed("changed"), f"fleethook crds --data-dir D fetch {URL} --policy Always"),
        ({"url": URL, "sha256": SHA}, listed(sha256="cd" * 32), f"fetch {URL} --policy Always --sha256 {SHA}"),
        ({"url": URL, "sha256": SHA}, listed(), "kubectl --namespace test describe karmadas.operator.karmada.io one"),
        ({}, None, "fleethook crds --data-dir D fetch --version v1.18.0"),
        ({"localSource": {"path": "/a b"}}, None, "fleethook crds verify '/a b'"),
        ({"url": "ftp://h/x"}, None, "kubectl --namespace test edit karmadas.operator.karmada.io one"),
    ],
)
def test_an_instance_that_is_not_ready_has_a_next_step(tarball: Any, entry: ListedEntry | None, command: str) -> None:
    view = describe(karmada(**tarball))._replace(conditions=(BROKEN,))
    step = choose_step(view, entry, make_context(), Cache(Path("D")))
    assert step.command.endswith(command)
    assert step.text.endswith(":")
    words = shlex.split(step.command)
    if words[0] == "fleethook":  # The options exist.
        assert invoke([*words[1:], "--help"]).exit_code == 0


async def test_an_instance_that_is_not_ready_is_diagnosed_at_its_anchor(filled: FilledCache) -> None:
    condition = dict(zip(("type", "status", "reason", "message", "lastTransitionTime"), BROKEN, strict=True))
    broken = {**karmada("z", url="https://h/x", sha256=SHA), "status": {"conditions": [condition]}}
    context = make_context(
        karmada("a"),
        broken,
        crd_cache=filled.cache.directory.parent,
        clock=lambda: datetime(2026, 11, 27, 2, 50, tzinfo=UTC),
    )
    app = create_console(context)
    page = await get(app, "/crds")
    assert 'id="instance-test/z"' in page.source
    assert "Condition Ready False Failed : the tarball is damaged , since 2026-11-25 21:37 UTC (29 h ago)" in page.text
    assert f"Expected SHA-256 {SHA} Found SHA-256 unknown: not in the cache" in page.text
    assert (
        f"Next step Download and check the tarball: fleethook crds --data-dir {filled.cache.directory.parent} fetch"
        in page.text
    )
    assert "/crds#instance-test/z" in (await get(app, "/attention")).addresses
    assert "/crds#instance-test/z" in (await get(app, "/search", "q=z")).addresses


@pytest.fixture
def filled(tmp_path: Path) -> FilledCache:
    return fill_cache(tmp_path / "data")


def console(filled: FilledCache, *documents: dict[str, Any]) -> Any:
    return console_of(*documents, crd_cache=filled.cache.directory.parent)


async def fail(app: Any, path: str, status: int, **query: str) -> Page:
    answer = await visit(app, path, query=urlencode(query))
    assert answer.status == status
    return read(answer)


def run(command: str) -> str:
    """Run the command line that a page shows, and return its output."""
    program, *words = shlex.split(command)
    assert program == "fleethook"
    return invoke(words).stdout


def find_command(page: Page) -> str:
    return re.split(r"on the command line[^:]*: ", page.text)[-1].removesuffix(" Copy")


async def test_the_list_shows_entries_with_url_digest_and_state(filled: FilledCache) -> None:
    page = await get(console(filled), "/crds")
    assert "Cache entries on this host: 2" in page.text
    for one in (filled.small, filled.release):
        assert one.url in page.text
        assert one.sha256 in page.text
        assert f"/crds/entry?key={one.key}" in page.addresses
    assert page.text.count("ready") == 2


async def test_a_cache_that_cannot_be_read_leaves_the_instances(filled: FilledCache, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "cache").write_text("")
    page = await get(console_of(karmada("alpha"), crd_cache=tmp_path / "other"), "/crds")
    assert "Not a directory" in page.text
    assert "test/alpha" in page.text


async def test_one_entry_lists_its_files_and_its_instances(filled: FilledCache) -> None:
    pinned = karmada("pinned", url=filled.small.url, sha256=filled.small.sha256)
    app = console(filled, pinned, karmada("elsewhere", url="https://h/x"))
    page = await get(app, "/crds/entry", f"key={filled.small.key}")
    assert CHANGED in page.text
    assert "Karmada's operator can use it." in page.text
    assert "pinned" in page.text
    assert "the cache entry has this digest" in page.text
    assert "elsewhere" not in page.text


async def test_a_damaged_entry_is_shown_as_such_and_not_trusted(filled: FilledCache) -> None:
    (filled.small.path / TARBALL).write_bytes(b"other")
    app = console(filled, karmada("pinned", url=filled.small.url, sha256=filled.small.sha256))
    page = await get(app, "/crds")
    assert f"{TARBALL} differs from its record" in page.text
    assert "the cache entry is not trusted" in page.text
    page = await get(app, "/crds/entry", f"key={filled.small.key}")
    assert "damaged, not trusted" in page.text
    assert "The console lists the files of verified entries only." in page.text


async def test_instances_have_source_policy_pin_and_conditions(filled: FilledCache) -> None:
    conditions = [{"type": "CRDsPrepared", "status": "False", "reason": "Offline", "message": "not cached"}]
    first = {**karmada("a", url=filled.small.url, sha256=SHA), "status": {"conditions": conditions}}
    page = await get(console(filled, first, karmada("b", url="https://h/x", crdDownloadPolicy="Never")), "/crds")
    assert "the cache entry has another digest" in page.text
    assert "CRDsPrepared False Offline : not cached" in page.text
    assert page.text.index("Instances that are not ready: 1") < page.text.index("Cache entries on this host")
    assert page.text.index("Karmada test/b") > page.text.index("Cache entries on this host")
    assert re.search(
        r"Tarball https://h/x Download policy Never Expected SHA-256 no pin .* has no entry for it", page.text
    )


async def test_keys_without_an_entry_are_errors_on_the_page(filled: FilledCache) -> None:
    app = console(filled)
    assert "is not in the cache" in (await fail(app, "/crds/entry", 404, key="0" * 64)).text
    for text in HOSTILE:
        assert "is not a key of the cache" in (await fail(app, "/crds/entry", 422, key=text)).text


async def test_the_commands_print_the_same(filled: FilledCache) -> None:
    app = console(filled)
    output = run(find_command(await get(app, "/crds")))
    assert filled.small.key in output
    assert filled.release.key in output
    page = await get(app, "/crds/entry", f"key={filled.small.key}")
    assert filled.small.key in run(find_command(page))


async def test_hostile_texts_stay_texts(filled: FilledCache) -> None:
    for text in HOSTILE:
        record = msgspec.json.decode((filled.small.path / RECORD).read_bytes())
        record |= {"url": text, "warnings": [text]}
        (filled.small.path / RECORD).write_bytes(msgspec.json.encode(record))
        condition = dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"), text)
        document = {**karmada(url=text, sha256=text), "status": {"conditions": [condition]}}
        document["metadata"] = {"name": text, "namespace": text, "annotations": {"kcp.io/cluster": text}}
        named = {**karmada(localSource={"path": f"/{text}"}), "metadata": {"name": text, "namespace": "x"}}
        linked = karmada("linked", url=f"https://h/{text}")
        app = console(filled, document, named, linked)
        page = await get(app, "/crds")
        assert "CRD tarballs" in page.text
        await get(app, "/crds/entry", f"key={filled.small.key}")


async def test_credentials_never_reach_a_page(filled: FilledCache) -> None:
    document = karmada(url="https://user:hunter2@h/x?token=hunter2")
    key = TarballSource("https://user:hunter2@h/x?token=hunter2").key
    page = await get(console(filled, document), "/crds")
    assert "hunter2" not in page.text
    assert "***" in page.text
    assert key not in page.addresses


def condition(kind: str, status: str, reason: str = "R", message: str = "m") -> ConditionView:
    return ConditionView(kind, status, reason, message, "2026-01-01T12:00:00Z")


PLACE = "/crds#instance-ns/k"


def list_lines(**fields: Any) -> list[AttentionLine]:
    view = InstanceView("", "ns", "k", "", "", "", "", "", (), ())._replace(**fields)
    return list(list_instance_lines(view))


def test_conditions_that_are_not_true_have_a_line_and_a_cause_has_one() -> None:
    conditions = (
        condition("CRDsPrepared", "False"),
        condition("Ready", "False"),
        condition("CRDsApplied", "Unknown", "Waits", ""),
        condition("Other", "True", "Fine"),
    )
    since = "2026-01-01 12:00:00"
    assert list_lines(conditions=conditions) == [
        AttentionLine("failing", "Karmada ns/k", "CRDsPrepared is False: m", PLACE, since),
        AttentionLine("waiting", "Karmada ns/k", "CRDsApplied is Unknown: Waits", PLACE, since),
    ]


def test_invalid_instances_and_warnings_have_a_line() -> None:
    assert list_lines(problem="no URL", warnings=("old",), cluster="c") == [
        AttentionLine("error", "Karmada ns/k in c", "no URL", "/crds#instance-c/ns/k"),
        AttentionLine("warning", "Karmada ns/k in c", "old", "/crds#instance-c/ns/k"),
    ]


def list_paths(directory: Path) -> set[Path]:
    return set(directory.rglob("*"))


def test_a_missing_cache_has_no_entry_and_is_not_created(tmp_path: Path) -> None:
    assert inspect_entries(Cache(tmp_path / "data")) == {}
    assert list(tmp_path.iterdir()) == []


def test_reading_leaves_the_directory_as_it_is(filled: FilledCache) -> None:
    before = list_paths(filled.cache.directory)
    inspect_entries(filled.cache)
    read_content(filled.cache, filled.small.key)
    assert list_paths(filled.cache.directory) == before


def test_a_world_writable_entry_is_refused(filled: FilledCache) -> None:
    (filled.small.path / TARBALL).chmod(0o666)
    listed, manifest = read_content(filled.cache, filled.small.key)
    assert (listed.state, manifest) == ("refused", None)

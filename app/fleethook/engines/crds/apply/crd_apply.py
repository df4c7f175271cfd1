"""Compares, plans, applies and awaits CRDs and their patches on the API server of an instance.

Upstream: ``applyCrds`` and ``patchCrds`` in operator/pkg/tasks/init/karmadaresource.go (v1.17.1).
"""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from fleethook.cluster.connection import Connection
from fleethook.engines.crds.apply import instance_server
from fleethook.engines.crds.apply.crd_patches import Patch, check_patches, render_crds, render_one, render_tree
from fleethook.engines.crds.archive.crd_content import Tree
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.model.json import JSON, JSONObject, as_list, as_object

Change = Literal["added", "changed", "removed"]

_VERSIONS: Final = "versions"


class VersionChange(NamedTuple):
    """The change of a version of a CRD."""

    name: str
    change: Change
    fields: tuple[str, ...] = ()
    """The differing fields of the version, if both states have it."""


class CRDChange(NamedTuple):
    """The change of a CRD."""

    name: str
    change: Change
    versions: tuple[VersionChange, ...] = ()
    fields: tuple[str, ...] = ()
    """The differing fields of ``spec``, without ``versions``."""
    lost: tuple[str, ...] = ()
    """Removed versions that objects may be stored in (``status.storedVersions``)."""

    def format_lines(self) -> Iterator[str]:
        """Yield lines of text: one for the CRD, then one for each changed part."""
        yield f"{self.change:<8} {self.name}"
        for version in self.versions:
            differs = f": {', '.join(version.fields)}" if version.fields else ""
            yield f"  version {version.name} {version.change}{differs}"
        if self.fields:
            yield f"  spec changed: {', '.join(self.fields)}"
        if self.lost:
            yield f"  objects may be stored in {', '.join(self.lost)}, which would be lost"


State = Mapping[str, Mapping[str, JSON]]
"""CRDs by name."""


def compare(before: State, after: State) -> list[CRDChange]:
    """Return the changes between two states, sorted by name; status and metadata are not compared.

    Args:
        before: The present state, for example the CRDs of a server with their stored versions.
        after: The desired state.
    """
    found = (_compare_crd(name, before.get(name), after.get(name)) for name in sorted({*before, *after}))
    return [change for change in found if change is not None]


def find_lost_versions(before: Mapping[str, JSON], after: Mapping[str, JSON]) -> tuple[str, ...]:
    """Return the stored versions of a CRD (``status.storedVersions``) that its new state does not have."""
    stored = as_object(before.get("status")).get("storedVersions")
    versions = _list_versions(after)
    return tuple(str(name) for name in (stored if isinstance(stored, list) else ()) if name not in versions)


def _compare_crd(name: str, before: Mapping[str, JSON] | None, after: Mapping[str, JSON] | None) -> CRDChange | None:
    if after is None:
        return CRDChange(name, "removed")
    if before is None:
        return CRDChange(name, "added", tuple(VersionChange(one, "added") for one in _list_versions(after)))
    versions = tuple(_compare_versions(_list_versions(before), _list_versions(after)))
    fields = _list_differing_fields(as_object(before.get("spec")), as_object(after.get("spec")), leave_out=(_VERSIONS,))
    lost = find_lost_versions(before, after)
    return CRDChange(name, "changed", versions, fields, lost) if versions or fields or lost else None


def _compare_versions(
    before: Mapping[str, Mapping[str, JSON]], after: Mapping[str, Mapping[str, JSON]]
) -> Iterator[VersionChange]:
    for name in dict.fromkeys((*before, *after)):
        if name not in after:
            yield VersionChange(name, "removed")
        elif name not in before:
            yield VersionChange(name, "added")
        elif fields := _list_differing_fields(before[name], after[name]):
            yield VersionChange(name, "changed", fields)


def _list_versions(crd: Mapping[str, JSON]) -> dict[str, Mapping[str, JSON]]:
    listed = as_object(crd.get("spec")).get(_VERSIONS)
    return {str(as_object(one).get("name")): as_object(one) for one in (listed if isinstance(listed, list) else ())}


def _list_differing_fields(
    before: Mapping[str, JSON], after: Mapping[str, JSON], *, leave_out: Sequence[str] = ()
) -> tuple[str, ...]:
    names = sorted({*before, *after} - set(leave_out))
    return tuple(name for name in names if before.get(name) != after.get(name))


def compare_releases(before: Tree, after: Tree) -> list[CRDChange]:
    """Return the changes between two releases, patched for the same imaginary instance.

    Raises:
        CRDsError: ARCHIVE if a patch cannot be merged.
    """
    return compare(render_tree(before), render_tree(after))


Result = Literal["created", "configured", "unchanged"]

# Upstream's words.
_APPLYING: Final = "failed to apply karmada crds, err: "
_PATCHING: Final = "failed to patch karmada crds, err: "


class Applied(NamedTuple):
    """The result of applying one CRD."""

    name: str
    result: Result
    patched: bool
    """Whether a patch of the tarball was applied too."""
    warning: str = ""


class _CRDState(NamedTuple):
    """Digests of a CRD before and after. Keeping the objects would hold all CRDs of a release in memory."""

    before: bytes | None
    after: bytes
    patched: bool = False

    def to_result(self, name: str) -> Applied:
        same = self.before == self.after
        return Applied(name, "created" if self.before is None else "unchanged" if same else "configured", self.patched)


async def apply(
    connection: Connection, crds: Mapping[str, JSONObject], patches: Sequence[Patch], *, dry_run: bool = False
) -> list[Applied]:
    """Apply every CRD, then every patch, and return the result for each CRD. Deletes no CRD.

    The two steps are not one apply of the CRDs that `render_crds` returns. Karmada's operator applies the CRDs without
    the patches as the same field manager, which would remove the conversion that the patches set.

    Args:
        connection: Connection to the API server of the instance.
        crds: CRDs by name, in order.
        patches: Patches in order; each is for one of the CRDs.
        dry_run: Send dry-run requests only.

    Raises:
        CRDsError: NETWORK or HTTP; the message lists the CRDs that had been applied. A second run is safe.
    """
    check_patches(crds, patches)
    done: dict[str, _CRDState] = {}
    try:
        for name in crds:
            before = await instance_server.find(connection, name)
            # A dry run stores no new CRD that the patches could be sent to.
            tried = render_one(name, crds, patches) if dry_run and before is None else crds[name]
            known = None if before is None else _digest_crd(before)
            done[name] = _CRDState(
                known, _digest_crd(await instance_server.apply(connection, name, tried, dry_run=dry_run))
            )
    except CRDsError as error:
        raise _explain_stop(_APPLYING, error, done, crds) from None
    for patch in patches:
        try:
            done[patch.crd] = await _apply_patch(connection, patch, done[patch.crd], dry_run=dry_run)
        except CRDsError as error:
            raise _explain_stop(_PATCHING, error, done, crds) from None
    return [written.to_result(name) for name, written in done.items()]


def summarize(crds: Sequence[Applied]) -> str:
    """Return how many CRDs were created, configured and unchanged."""
    counts = Counter(one.result for one in crds)
    listed = ", ".join(f"{count} {result}" for result, count in sorted(counts.items()))
    return f"{len(crds)} CRDs ({listed})" if crds else "no CRDs"


async def _apply_patch(connection: Connection, patch: Patch, written: _CRDState, *, dry_run: bool) -> _CRDState:
    if not dry_run:
        after = await instance_server.patch(connection, patch, dry_run=False)
        return written._replace(after=_digest_crd(after), patched=True)
    if written.before is None:
        return written._replace(patched=True)
    tried = _digest_crd(await instance_server.patch(connection, patch, dry_run=True))
    # The dry run patches the stored CRD, not the applied one: a change by either step counts.
    return written._replace(after=written.after if tried == written.before else tried, patched=True)


def _digest_crd(crd: Mapping[str, JSON]) -> bytes:
    """Return a digest of a CRD without status and resource version: controllers write the status meanwhile.

    The resource version alone is not enough: a dry run never changes it.
    """
    metadata = as_object(crd.get("metadata"))
    managers = metadata.get("managedFields")
    ours = (
        [one for one in managers if as_object(one).get("subresource") != "status"] if isinstance(managers, list) else []
    )
    others = {name: value for name, value in metadata.items() if name not in ("resourceVersion", "managedFields")}
    rest = {name: value for name, value in crd.items() if name not in ("metadata", "status")}
    return hashlib.sha256(json.dumps([others, ours, rest], sort_keys=True).encode()).digest()


def _explain_stop(
    words: str, error: CRDsError, done: Mapping[str, _CRDState], crds: Mapping[str, JSONObject]
) -> CRDsError:
    patched = [name for name, written in done.items() if written.patched]
    names = f": {', '.join(done)}" if done else ""
    more = f"; patched: {', '.join(patched)}" if patched else ""
    text = f"{words}{error} ({len(done)} of {len(crds)} CRDs had been applied{names}{more}; running it again is safe)"
    return CRDsError(error.exit, text, transient=error.transient)


# Polling survives a broken connection; a watch would have to be resumed.
_POLL_SECONDS: Final = 0.2
# The server sets NamesAccepted after it stores the names: until then the condition may be about the former names.
_SETTLING_SECONDS: Final = 1.0


async def wait_established(connection: Connection, names: Iterable[str], *, seconds: float) -> None:
    """Wait until every CRD has the conditions ``Established`` and ``NamesAccepted``.

    Args:
        connection: Connection to the API server.
        names: Names of the CRDs.
        seconds: The longest time to wait.

    Raises:
        CRDsError: HTTP with the server's message once it refuses the names of a CRD; NETWORK after ``seconds``, with
            the conditions of the CRDs that are not established.
    """
    pending = dict.fromkeys(names, "not checked yet")
    try:
        async with asyncio.timeout(seconds):
            await _poll(connection, pending)
    except TimeoutError:
        missing = "; ".join(f"{name}: {state}" for name, state in pending.items())
        raise CRDsError(Exit.NETWORK, f"not Established within {seconds:g} s: {missing}", transient=True) from None


async def _poll(connection: Connection, pending: dict[str, str]) -> None:
    clock = asyncio.get_running_loop().time
    settled = clock() + _SETTLING_SECONDS
    while True:
        for name in list(pending):
            asked = clock()
            conditions = await _read_conditions(connection, name, pending)
            if conditions is None:
                continue
            refused = _find_refusal(conditions)
            if refused and asked >= settled:
                raise CRDsError(Exit.HTTP, f"{name}: the server does not accept its names: {refused}")
            if not refused and as_object(conditions.get("Established")).get("status") == "True":
                del pending[name]
            else:
                pending[name] = ", ".join(map(_format_condition, conditions.values())) or "no conditions yet"
        if not pending:
            return
        await asyncio.sleep(_POLL_SECONDS)


async def _read_conditions(connection: Connection, name: str, pending: dict[str, str]) -> dict[str, JSON] | None:
    """Return the conditions by type; without a response, record the reason in ``pending`` and return None."""
    try:
        found = await instance_server.find(connection, name)
    except CRDsError as error:
        # A server that restarts answers with various errors.
        pending[name] = str(error).removeprefix(f"{name}: ")
        return None
    if found is None:
        pending[name] = "the server no longer has this CRD"
        return None
    listed = as_list(as_object(found.get("status")).get("conditions"))
    return {str(one.get("type")): one for one in listed if isinstance(one, dict)}


def _find_refusal(conditions: Mapping[str, JSON]) -> str:
    accepted = as_object(conditions.get("NamesAccepted"))
    return f"{accepted.get('reason')}: {accepted.get('message')}" if accepted.get("status") == "False" else ""


def _format_condition(condition: JSON) -> str:
    found = as_object(condition)
    reason = f" ({found['reason']}: {found.get('message')})" if found.get("reason") else ""
    return f"{found.get('type')}={found.get('status')}{reason}"


_KARMADA_SUFFIX: Final = ".karmada.io"


async def plan(connection: Connection, crds: Mapping[str, JSONObject], patches: Sequence[Patch]) -> list[CRDChange]:
    """Return the differences between a server's CRDs and those of a release, patched for an instance.

    A dry run returns the objects that the server would store, so its defaults are not reported as differences. A CRD of
    the release's groups or of ``*.karmada.io`` that the release does not have is reported as removed; applying keeps
    it.

    Raises:
        CRDsError: ARCHIVE if a patch cannot be merged; NETWORK, HTTP as `fleethook.engines.crds.apply.instance_server`.
    """
    wanted = render_crds(crds, patches)
    groups = {_read_group(crd) for crd in crds.values()}
    listed = {
        str(as_object(one.get("metadata")).get("name")): one for one in await instance_server.find_all(connection)
    }
    before = {
        name: crd
        for name, crd in listed.items()
        if name in crds or _read_group(crd) in groups or _read_group(crd).endswith(_KARMADA_SUFFIX)
    }
    after: dict[str, Mapping[str, JSON]] = {}
    for name, crd in wanted.items():
        stored = before.get(name)
        # The server refuses to drop a stored version, even in a dry run.
        known = stored is not None and not find_lost_versions(stored, crd)
        after[name] = await instance_server.apply(connection, name, crd, dry_run=True) if known else crd
    return compare(before, after)


class StoredVersionsError(CRDsError):
    """The release drops versions that objects may be stored in."""

    def __init__(self, lost: Mapping[str, Sequence[str]], remedy: str) -> None:
        listed = "; ".join(f"{name}: {', '.join(versions)}" for name, versions in lost.items())
        text = f"objects may be stored in versions that the tarball does not have ({listed})"
        super().__init__(Exit.ARCHIVE, f"{text}: migrate them first, or {remedy}")


def check_lost_versions(changes: Sequence[CRDChange]) -> None:
    """Raise StoredVersionsError if a change drops a version that objects may be stored in."""
    lost = {one.name: one.lost for one in changes if one.lost}
    if lost:
        raise StoredVersionsError(lost, "give --force")


async def check_stored_versions(
    connection: Connection, crds: Mapping[str, JSONObject], patches: Sequence[Patch]
) -> None:
    """Refuse a release that drops a stored version, without planning all changes.

    Reads one CRD at a time and keeps only the names of its versions, to bound the memory of a controller.

    Raises:
        StoredVersionsError: The release drops a version that objects may be stored in.
        CRDsError: ARCHIVE if a patch cannot be merged; NETWORK, HTTP as `fleethook.engines.crds.apply.instance_server`.
    """
    lost: dict[str, Sequence[str]] = {}
    check_patches(crds, patches)
    for name in crds:
        stored = await instance_server.find(connection, name)
        if stored is not None and (versions := find_lost_versions(stored, render_one(name, crds, patches))):
            lost[name] = versions
    if lost:
        raise StoredVersionsError(lost, "run `crds apply --force`")


def _read_group(crd: Mapping[str, JSON]) -> str:
    return str(as_object(crd.get("spec")).get("group"))

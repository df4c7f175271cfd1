"""Plans the changes that applying CRDs would make on a server, by dry runs."""

from collections.abc import Mapping, Sequence
from typing import Final

from fleethook.cluster.connection import Connection
from fleethook.engines.crds.apply import crd_client
from fleethook.engines.crds.apply.diff import CRDChange, compare, find_lost_versions
from fleethook.engines.crds.apply.patches import Patch, check_patches, render_crds, render_one
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.model.json import JSON, JSONObject, as_object

_KARMADA_SUFFIX: Final = ".karmada.io"


async def plan(connection: Connection, crds: Mapping[str, JSONObject], patches: Sequence[Patch]) -> list[CRDChange]:
    """Return the differences between a server's CRDs and those of a release, patched for an instance.

    A dry run returns the objects that the server would store, so its defaults are not reported as differences. A CRD of
    the release's groups or of ``*.karmada.io`` that the release does not have is reported as removed; applying keeps
    it.

    Raises:
        CRDsError: ARCHIVE if a patch cannot be merged; NETWORK, HTTP as `fleethook.engines.crds.apply.crd_client`.
    """
    wanted = render_crds(crds, patches)
    groups = {_read_group(crd) for crd in crds.values()}
    listed = {str(as_object(one.get("metadata")).get("name")): one for one in await crd_client.find_all(connection)}
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
        after[name] = await crd_client.apply(connection, name, crd, dry_run=True) if known else crd
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
        CRDsError: ARCHIVE if a patch cannot be merged; NETWORK, HTTP as `fleethook.engines.crds.apply.crd_client`.
    """
    lost: dict[str, Sequence[str]] = {}
    check_patches(crds, patches)
    for name in crds:
        stored = await crd_client.find(connection, name)
        if stored is not None and (versions := find_lost_versions(stored, render_one(name, crds, patches))):
            lost[name] = versions
    if lost:
        raise StoredVersionsError(lost, "run `crds apply --force`")


def _read_group(crd: Mapping[str, JSON]) -> str:
    return str(as_object(crd.get("spec")).get("group"))

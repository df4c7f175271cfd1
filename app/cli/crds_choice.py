"""Which tarballs the commands about CRDs are told of."""

from collections.abc import Iterator
from pathlib import Path

from app.cli.manifests import documents
from app.crds.failures import CRDsError, Exit
from app.crds.instance.chosen import Chosen, source_of
from app.crds.instance.version import release_url
from app.crds.source import Policy, Source
from app.model.operator import KARMADA


def chosen_of(
    url: str | None, karmada: list[Path] | None, version: str | None, *, follow_instance: bool, strict: bool
) -> Iterator[Chosen]:
    """Yield the tarballs that a command is about: the one at an address, of a release, or of each instance in files.

    Raises:
        CRDsError: USAGE when nothing or too much is given, or an instance says what cannot be.
    """
    if karmada:
        if url is not None:
            raise CRDsError(Exit.USAGE, "give an address or --karmada, not both")
        found = [one.object for one in documents(karmada) if one.object["kind"] == KARMADA.kind]
        if not found:
            raise CRDsError(Exit.USAGE, f"there is no {KARMADA.kind} in {', '.join(map(str, karmada))}")
        for one in found:
            yield source_of(one, version=version or "", follow_instance=follow_instance, strict=strict)
    elif url is not None:
        yield Chosen(Source(url), Policy.IF_NOT_PRESENT)
    elif version is not None:
        yield Chosen(Source(release_url(version)), Policy.IF_NOT_PRESENT)
    else:
        raise CRDsError(Exit.USAGE, "give an address, --karmada FILE or --version RELEASE")


def check_reach(chosen: Chosen) -> None:
    """Refuse what only a controller in the cluster could get at; raises CRDsError USAGE."""
    secrets = sorted({name for name in chosen.references if name})
    if chosen.held is not None:
        text = f"the tarball is at {chosen.source.url}, which is not downloaded: bring it in with `crds cache import`"
        raise CRDsError(Exit.USAGE, text)
    if secrets:
        raise CRDsError(Exit.USAGE, f"it takes the Secret {', '.join(secrets)} of the cluster, which is not read here")


def read_file(path: Path) -> bytes:
    """Return what is in a file; raises CRDsError USAGE."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CRDsError(Exit.USAGE, f"{path}: {error.strerror}") from None

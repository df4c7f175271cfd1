"""Turns the arguments of a command into the sources of tarballs, and validates them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fleethook.cli.inputs.manifests import read_objects
from fleethook.engines.crds.cache.cache import Cache
from fleethook.engines.crds.cache.layout import find_data_directory
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.instance.source_selection import SelectedSource, select_source
from fleethook.engines.crds.instance.version import build_release_url, is_release, parse_release
from fleethook.engines.crds.source import Policy, Source
from fleethook.model.operator import KARMADA, SHA256_FORM

_SHA256: Final = re.compile(SHA256_FORM, re.ASCII)


def select_sources(
    url: str | None, karmada: list[Path] | None, version: str | None, *, follow_instance: bool, strict: bool
) -> Iterator[SelectedSource]:
    """Yield the sources of a command's tarballs: a URL, a release, or the instances in manifests.

    Raises:
        CRDsError: USAGE for missing or contradictory arguments, and for an invalid instance.
    """
    if karmada:
        if url is not None:
            raise CRDsError(Exit.USAGE, "give a URL or --karmada, not both")
        found = [one.object for one in read_objects(karmada) if one.object["kind"] == KARMADA.kind]
        if version:
            parse_release(version)
        if not found:
            raise CRDsError(Exit.USAGE, f"there is no {KARMADA.kind} in {', '.join(map(str, karmada))}")
        for one in found:
            yield select_source(one, version=version or "", follow_instance=follow_instance, strict=strict)
    elif url is not None:
        yield SelectedSource(Source(url), Policy.IF_NOT_PRESENT)
    elif version is not None:
        yield SelectedSource(Source(build_release_url(check_version(version))), Policy.IF_NOT_PRESENT)
    else:
        raise CRDsError(Exit.USAGE, "give a URL, --karmada FILE or --version RELEASE")


def open_cache(data_dir: Path | None) -> Cache:
    """Return the cache below a data directory, that of the user by default."""
    return Cache(data_dir or find_data_directory())


def check_sha256(text: str) -> str:
    """Return a digest in lowercase, ``""`` for none; raises CRDsError USAGE for any other text."""
    if text and not _SHA256.fullmatch(text):
        hint = "; leave out the prefix sha256:" if text.lower().startswith("sha256:") else ""
        raise CRDsError(Exit.USAGE, f"--sha256 {text}: must be 64 hexadecimal digits, as `crds pin` prints them{hint}")
    return text.lower()


def check_version(text: str) -> str:
    """Return the name of a release; raises CRDsError USAGE for any other text."""
    if is_release(text):
        return text
    hint = f"; did you mean v{text}?" if is_release(f"v{text}") else ""
    raise CRDsError(Exit.USAGE, f"--version {text}: must be a release such as v1.18.0{hint}")


def check_reach(chosen: SelectedSource) -> None:
    """Raise CRDsError USAGE for a tarball that only a controller in the cluster can read."""
    secrets = sorted({name for name in chosen.references if name})
    if chosen.non_http is not None:
        text = f"the tarball is at {chosen.source.url}, which is not downloaded: use `crds cache import`"
        raise CRDsError(Exit.USAGE, text)
    if secrets:
        raise CRDsError(Exit.USAGE, f"it needs the Secret {', '.join(secrets)} of the cluster, which is not read here")


def read_file(path: Path) -> bytes:
    """Return the content of a file; raises CRDsError USAGE."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CRDsError(Exit.USAGE, f"{path}: {error.strerror}") from None

"""Reads the files of credentials. Errors name the file and the field, never a value."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from fleethook.cluster.manifests.yaml_reader import ManifestError, read_values
from fleethook.engine import EngineStartError
from fleethook.model.json import JSON, JSONObject, as_object


class CredentialFileError(EngineStartError):
    """A credential file is invalid; the message has the place, the reason and the remedy."""


class Files:
    """Reads files, and keeps their content to detect changes.

    Attributes:
        content: The content of each file by path, empty for an unreadable file.
    """

    def __init__(self) -> None:
        """Start without files."""
        self.content: Final[dict[Path, bytes]] = {}

    def read(self, path: Path) -> bytes:
        """Return the content of a file; raises CredentialFileError."""
        self.content[path] = b""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CredentialFileError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
        self.content[path] = content
        return content

    def read_object(self, path: Path) -> JSONObject:
        """Return the one object of a YAML file; raises CredentialFileError."""
        try:
            values = read_values(self.read(path).decode(), source=str(path))
        except UnicodeDecodeError:
            raise CredentialFileError(f"{path} is not UTF-8") from None
        except ManifestError as error:
            # The reason may quote the file.
            raise CredentialFileError(f"{path}:{error.line}: is not valid YAML") from None
        if len(values) != 1 or not isinstance(values[0].value, dict):
            raise CredentialFileError(f"{path} must hold one YAML object")
        return values[0].value


def check_type(found: Mapping[str, JSON], *, api_version: str, kind: str, where: str) -> None:
    """Raise CredentialFileError unless an object is of a kind."""
    if (found.get("apiVersion"), found.get("kind")) != (api_version, kind):
        raise CredentialFileError(f"{where} must be of kind {kind} in {api_version}")


def check_members(found: Mapping[str, JSON], known: Collection[str], *, where: str) -> None:
    """Raise CredentialFileError if an object has unknown members; an apiserver decodes these files strictly."""
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise CredentialFileError(f"{where} has an unknown field {unknown[0]!r}")


def read_text(found: Mapping[str, JSON], member: str, *, where: str) -> str:
    """Return a string member, ``""`` if it is missing; raises CredentialFileError."""
    value = found.get(member)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise CredentialFileError(f"{where}: {member} must be a string")
    return value


def read_objects(found: Mapping[str, JSON], member: str, *, where: str) -> list[Mapping[str, JSON]]:
    """Return a member that is a list of objects, empty if it is missing; raises CredentialFileError."""
    value = found.get(member)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise CredentialFileError(f"{where}: {member} must be a list of objects")
    return [as_object(one) for one in value]

"""Reading the files of credentials: errors name the file and the place, never a content."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from app.model.json import JSON, JSONObject, as_object
from app.store.yaml_reader import ManifestError, read_values


class CredentialFileError(Exception):
    """A file that cannot be used; the text says where, why and what to do."""


class Files:
    """Reads files, and keeps the bytes of each, so that a change can be noticed.

    Attributes:
        content: The text of each file, by path; nothing of a file that could not be read.
    """

    def __init__(self) -> None:
        """Prepare."""
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
            # Its reason may quote what stands there.
            raise CredentialFileError(f"{path}:{error.line}: is not valid YAML") from None
        if len(values) != 1 or not isinstance(values[0].value, dict):
            raise CredentialFileError(f"{path} must hold one YAML object")
        return values[0].value


def check_type(found: Mapping[str, JSON], *, api_version: str, kind: str, where: str) -> None:
    """Raise CredentialFileError unless an object is of a kind."""
    if (found.get("apiVersion"), found.get("kind")) != (api_version, kind):
        raise CredentialFileError(f"{where} must be of kind {kind} in {api_version}")


def check_members(found: Mapping[str, JSON], known: Collection[str], *, where: str) -> None:
    """Raise CredentialFileError if an object has other members; an apiserver reads these files strictly."""
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise CredentialFileError(f"{where} has an unknown field {unknown[0]!r}")


def read_text(found: Mapping[str, JSON], member: str, *, where: str) -> str:
    """Return a member that is a text, ``""`` if it is not there; raises CredentialFileError."""
    value = found.get(member)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise CredentialFileError(f"{where}: {member} must be a string")
    return value


def read_objects(found: Mapping[str, JSON], member: str, *, where: str) -> list[Mapping[str, JSON]]:
    """Return a member that is a list of objects, which is empty if it is not there; raises CredentialFileError."""
    value = found.get(member)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise CredentialFileError(f"{where}: {member} must be a list of objects")
    return [as_object(one) for one in value]

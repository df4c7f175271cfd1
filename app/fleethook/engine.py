"""The record of an engine, and the installed engines, which are found through entry points.

Records name their parts by references such as ``package.module:name``. A reference is imported when the part is needed,
so an engine that is off costs neither memory nor start time.
"""

import functools
import importlib
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

GROUP: Final = "fleethook.engines"
"""The group of entry points that name the records of engines."""
_PACKAGE: Final = "fleethook.engines."


class EngineStartError(Exception):
    """A setting of an engine cannot be used; the text has the place, the reason and the remedy."""


class CommandSpec(NamedTuple):
    """The place of a command in the code, which is imported when the command runs, and its line in the list.

    Attributes:
        reference: A function, or a `fleethook.cli.command_line.CommandGroup`.
        summary: The first paragraph of its help. A test compares the two.
        heading: The part of the list to which it belongs; for a command of an engine, that of its system.
    """

    reference: str
    summary: str
    heading: str = "Commands"


class Probe(NamedTuple):
    """A dry run of an object that an engine refuses, by which ``fleethook doctor`` tests a webhook.

    Attributes:
        webhook: Name of the webhook that refuses it.
        plural: Resource of the object.
        namespaced: Whether the object has a namespace.
        body: The object, without namespace.
    """

    webhook: str
    plural: str
    namespaced: bool
    body: dict[str, Any]

    @property
    def group(self) -> str:
        """The API group of the object."""
        return str(self.body["apiVersion"]).rpartition("/")[0]

    def build_path(self, namespace: str) -> str:
        """Return the path of the request that creates the object."""
        scope = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"/{'apis' if self.group else 'api'}/{self.body['apiVersion']}{scope}/{self.plural}"


class Engine(NamedTuple):
    """The contributions of an engine to the server, the command line and the console.

    Attributes:
        name: Its name in the setting ``engines``.
        order: Its place among other engines, in the list of commands and in the navigation of the console.
        system: The users of its commands, as a heading in the help.
        server: Its subclass of `fleethook.server.engine_server.EngineServer`, with its routes, readiness checks,
            metrics, background tasks and tasks of the leader.
        resources: A function of the settings that returns the kinds that it reads, as
            `fleethook.cluster.followed_objects.Followed`.
        indexes: A tuple of the indexes of the store that its reviews need.
        settings: A subclass of `fleethook.server_settings.ServerSettings` with its settings.
        commands: Its commands by name.
        webhooks: A function that returns each `Webhook` (`configuration_objects`) that sends reviews to it.
        probe: A function of the name of an object. It returns a `Probe` that creates the object.
        doctor: Its checks for ``fleethook doctor``: a coroutine function of a `Doctor` (`fleethook.cli.doctor.doctor`)
            and of all webhook configurations that returns findings. It runs if one of its webhooks is registered.
        uninstall: Its part of ``fleethook uninstall``: a coroutine function of an `Uninstaller` (`uninstall`) that
            removes its traces from other objects. It is not called while a leader may run.
        lint: A function of the documents to check, of a store with all objects and its indexes, and of the
            `fleethook.cli.inputs.objects_with_changes.SourceOptions`, None if it must not ask a cluster. Its findings
            are `fleethook.cli.output.findings_output.FindingRow`.
        page: A `fleethook.console.context.ConsolePage`.
    """

    name: str
    order: int
    server: str
    system: str = ""
    resources: str = ""
    indexes: str = ""
    settings: str = ""
    commands: Mapping[str, CommandSpec] = {}
    webhooks: str = ""
    probe: str = ""
    doctor: str = ""
    uninstall: str = ""
    lint: str = ""
    page: str = ""


def list_linting() -> list[Engine]:
    """Return the records of the installed engines that find mistakes in objects, in their order."""
    return [engine for engine in installed_engines().values() if engine.lint]


def load_reference(reference: str) -> Any:
    """Import the object that ``package.module:name`` names."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


@functools.cache
def installed_engines() -> Mapping[str, Engine]:
    """Return the records of the installed engines by name, in their order."""
    references = dict(_read_entry_points())
    if not any(one.startswith(_PACKAGE) for one in references.values()):
        references |= _list_folders()
    engines: list[Engine] = [load_reference(reference) for reference in references.values()]
    return {one.name: one for one in sorted(engines, key=lambda one: (one.order, one.name))}


def enabled_engines(names: Collection[str]) -> list[Engine]:
    """Return the records of the engines that the setting ``engines`` names, in their order."""
    return [engine for name, engine in installed_engines().items() if name in names]


def _list_folders() -> Iterator[tuple[str, str]]:
    """Yield the names and references of the engines of this package, by their folders.

    Metadata may be missing if the source is on PYTHONPATH, and an editable installation may have older metadata.
    """
    folder = os.path.join(os.path.dirname(__file__), "engines")  # noqa: PTH118, PTH120 - pathlib is slow to import
    for name in os.listdir(folder):  # noqa: PTH208 - as above
        if os.path.isfile(os.path.join(folder, name, "engine.py")):  # noqa: PTH113, PTH118 - as above
            yield name, f"{_PACKAGE}{name}.engine:ENGINE"


def _read_entry_points() -> Iterator[tuple[str, str]]:
    """Yield the names and references of engines; of distributions with the same engine, the first on the path is last.

    `importlib.metadata` does the same, but its import takes 35 ms: three times as long as the rest of ``--help``.
    """
    for directory in reversed(sys.path):
        try:
            with os.scandir(directory or ".") as entries:
                paths = [entry.path for entry in entries if entry.name.endswith(".dist-info")]
        except OSError:  # Paths of the interpreter may be missing, or files.
            continue
        for path in paths:
            try:
                with open(os.path.join(path, "entry_points.txt"), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - pathlib is slow to import
                    yield from _parse_entry_points(file.read())
            except OSError:  # Most distributions have no entry points.
                continue


def _parse_entry_points(text: str) -> Iterator[tuple[str, str]]:
    is_ours = False
    for line in text.splitlines():
        if line.startswith("["):
            is_ours = line.strip() == f"[{GROUP}]"
        elif is_ours and "=" in line:
            name, _, reference = line.partition("=")
            yield name.strip(), reference.strip()

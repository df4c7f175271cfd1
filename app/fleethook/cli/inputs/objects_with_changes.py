"""The objects that a command answers from: files or a cluster, as they are after the changes of ``--change``."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fleethook.cli.command_line import CHECK_FAILED, fail
from fleethook.cli.inputs.kubeconfig import find_default_cluster, find_namespace
from fleethook.cli.inputs.manifests import fail_input, read_manifests
from fleethook.cli.options import (
    ChangeOption,
    ContextOption,
    InClusterOption,
    InputOptions,
    KcpCacheOption,
    KcpExportOption,
    KcpOption,
    KubeconfigOption,
    NamespaceOption,
)
from fleethook.cli.output.text_output import write_error
from fleethook.cluster.kubernetes.watched_resources import (
    APIBINDINGS,
    DISPATCHING,
    KCP,
    LOGICAL_CLUSTERS,
    WatchedResource,
)
from fleethook.cluster.manifests.manifest_files import name_source
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, ManifestError
from fleethook.cluster.store import Index, ObjectKey, Store, key_of
from fleethook.model.formats.text import list_names
from fleethook.model.gvk import DEFINITION, GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.karmada import CONFIG_MAP
from fleethook.model.kcp import CLUSTER_ANNOTATION, LOGICAL_CLUSTER, cluster_of
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_OVERRIDER, YURT_APP_SET

_MARKED: Final = (GroupKind("", "Namespace"), "", "default")
"""The group, kind, namespace and name of an object that each workspace of kcp has, with its annotation."""
NAMESPACED: Final = frozenset(
    {
        YURT_APP_OVERRIDER,
        YURT_APP_SET,
        YURT_APP_DAEMON,
        CONFIG_MAP,
        GroupKind("apps", "Deployment"),
        GroupKind("apps", "StatefulSet"),
    }
)
"""Kinds whose objects are in namespaces, of those that commands read."""


class SourceOptions(NamedTuple):
    """The options of a command that reads files or a cluster, and may change the objects.

    Attributes:
        files: Manifest files and directories: the arguments and the values of ``-f``.
        kubeconfig: Kubeconfig file of the cluster to read.
        context: Context of the kubeconfig, None for its current context.
        in_cluster: Whether to read the cluster that this pod runs in.
        kcp: Whether to read all logical clusters of a kcp at once.
        change: Files and directories of manifests to apply to the objects.
        namespace: The only namespace whose objects are read, ``""`` for all.
        kcp_cache_kubeconfig: Kubeconfig of the cache server of the kcp, None for the objects of one shard.
        kcp_export: APIExport whose provider's rights are used, None for those of a shard's administrator.
        reading: How to read files.
    """

    files: Sequence[Path] = ()
    kubeconfig: KubeconfigOption = None
    context: ContextOption = None
    in_cluster: InClusterOption = False
    kcp: KcpOption = False
    change: ChangeOption = None
    namespace: NamespaceOption = ""
    kcp_cache_kubeconfig: KcpCacheOption = None
    kcp_export: KcpExportOption = None
    reading: InputOptions = InputOptions()

    @property
    def reads_cluster(self) -> bool:
        """Whether the objects come from a cluster."""
        return self.kubeconfig is not None or self.in_cluster

    def beside(
        self, *files: Sequence[Path] | None, reading: InputOptions = InputOptions(), files_option: str = "-f"
    ) -> "SourceOptions":
        """Return the options of a source that may be these files instead. Exits with a message if there is no source.

        Without files, the source is the cluster that kubectl would use, and a note names its kubeconfig.
        """
        given = self._replace(files=[one for some in files for one in some or ()], reading=reading)
        check_options(given, files_option)
        if given.files or given.in_cluster:
            return given
        return given._replace(kubeconfig=find_default_cluster(self.kubeconfig, self.context, files_option=files_option))


class InputObjects(NamedTuple):
    """The objects of a source.

    Attributes:
        documents: The objects, with changes. Those of a cluster have the file ``cluster`` and no line.
        before: The objects without changes; the same list if nothing changes.
        changed: Keys of added and changed objects.
        errors: Documents that cannot be read, if the command takes the others.
    """

    documents: list[Document]
    before: list[Document]
    changed: frozenset[ObjectKey]
    errors: tuple[ManifestError, ...] = ()

    def store(self, indexes: Iterable[Index]) -> Store:
        """Return a new store with the objects and these indexes."""
        return fill_store(self.documents, indexes)


def fill_store(documents: Iterable[Document], indexes: Iterable[Index]) -> Store:
    """Return a new store with these objects and indexes. Of two objects with the same key, the later one counts."""
    store = Store(indexes)
    for document in documents:
        store.put(document.object)
    return store


def warn_about(documents: Sequence[Document], kinds: Collection[GroupKind], *, strict: bool = False) -> None:
    """Report groups, versions and fields of these kinds that their APIs lack: the command's answer is without them.

    With ``strict``, they are errors, and the command exits.
    """
    from fleethook.api_schema import read_definitions  # noqa: PLC0415 - most commands need no schemas
    from fleethook.cluster.manifests.manifest_files import check_objects  # noqa: PLC0415 - as above

    definitions = read_definitions(document.object for document in documents)
    names = {kind.kind for kind in kinds}
    read = [document for document in documents if document.object["kind"] in names]
    found = [f"{one.place}: {one.text}" for one in check_objects(read, definitions) if one.finding.level == "error"]
    if strict and found:
        fail(*found, code=CHECK_FAILED)
    write_error(*(f"warning: {one}" for one in found))


def replace_objects(documents: Sequence[Document], others: Sequence[Document]) -> list[Document]:
    """Return objects with others added, each in place of the object with the same key."""
    keys = {key_of(other.object) for other in others}
    return [*(document for document in documents if key_of(document.object) not in keys), *others]


def read_source(
    options: SourceOptions,
    resources: Sequence[WatchedResource],
    *,
    every_kind: bool = False,
    partial: bool = False,
    expects_namespace: bool = True,
) -> InputObjects:
    """Return the objects that the options name. Exits with a message if that is impossible.

    Args:
        options: The options of the command.
        resources: The resources that the command needs of a cluster. Files are read as a whole.
        every_kind: Whether objects of other kinds have an effect, too.
        partial: Whether to return the other objects if documents of files cannot be read.
        expects_namespace: Whether a note tells if the namespace of the options has no object.
    """
    read = [read_manifests(files, options.reading) for files in (options.files, options.change or ())]
    # The same file may be given twice.
    errors = tuple({str(error): error for one in read for error in one.errors}.values())
    if errors and not partial:
        fail_input(errors)
    if not every_kind:
        note_unused(options.files, read[0].documents, resources)
    change = select_namespace(read[1].documents, options.namespace)
    before = _read_cluster(options, resources) if options.reads_cluster else read[0].documents
    every, before = before, select_namespace(before, options.namespace)
    if options.namespace and expects_namespace:
        _note_other_namespaces(every, [*before, *change], options.namespace)
    if not options.change:
        return InputObjects(before, before, frozenset(), errors)
    if not every_kind:
        note_unused(options.change, change, resources)
    if options.kcp_export is not None:
        from fleethook.cli.inputs.kcp_export import (  # noqa: PLC0415 - as for `_read_cluster`
            find_provider,
            set_cluster,
        )

        # kubectl would apply them in the workspace of the kubeconfig.
        change = [set_cluster(one, find_provider(before, options.kcp_export)) for one in change]
    namespace = None
    if options.reads_cluster:
        namespace = options.namespace or find_namespace(options.kubeconfig, options.context)
    after, changed = overlay(before, change, namespace=namespace, kcp=options.kcp)
    return InputObjects(after, before, changed, errors)


def select_namespace(documents: Sequence[Document], namespace: str) -> list[Document]:
    """Return the objects of a namespace, and those of no namespace; all objects for ``""``.

    An object of a namespaced kind that names no namespace is in this one, as for kubectl.
    """
    if not namespace:
        return [*documents]
    placed = [_place(document, namespace) for document in documents]
    return [one for one in placed if (one.object["metadata"].get("namespace") or namespace) == namespace]


def _note_other_namespaces(every: Sequence[Document], selected: Sequence[Document], namespace: str) -> None:
    """Report that no selected object is in the namespace, and where the others are."""
    found, others = (
        {one.object["metadata"].get("namespace") for one in some} - {None, ""} for some in (selected, every)
    )
    if others and not found:
        write_error(f"note: -n {namespace}: there is no object in this namespace, but in {list_names(sorted(others))}")


def _place(document: Document, namespace: str, kinds: Collection[GroupKind] = NAMESPACED) -> Document:
    """Return an object of one of these kinds in the namespace, if it names none."""
    key = key_of(document.object)
    if key.namespace or key.group_kind not in kinds:
        return document
    metadata = {**document.object["metadata"], "namespace": namespace}
    return document._replace(object={**document.object, "metadata": metadata})


def note_unused(files: Sequence[Path], documents: Sequence[Document], resources: Sequence[WatchedResource]) -> None:
    """Report files that the user names and that have only kinds on which the output does not depend."""
    read, kinds = {resource.group_kind for resource in resources}, dict[str, set[GroupKind]]()
    for document in documents:
        kinds.setdefault(document.source, set()).add(key_of(document.object).group_kind)
    for source in map(name_source, files):
        if source in kinds and kinds[source].isdisjoint(read):
            names = ", ".join(sorted(one.kind for one in kinds[source]))
            write_error(f"note: {source}: this command does not read any {names}")


def select_dispatching(*, kcp: bool) -> tuple[WatchedResource, ...]:
    """Return the resources that decide about webhooks.

    Without ``kcp``, the result lacks the resources of kcp, so that users do not need the right to read them.
    `read_source` reads those that a CustomResourceDefinition of the cluster defines.
    """
    return tuple(one for one in DISPATCHING if kcp or one not in KCP)


def _read_cluster(options: SourceOptions, resources: Sequence[WatchedResource]) -> list[Document]:
    """Return the objects of the cluster."""
    decides = set(select_dispatching(kcp=False)).issubset(resources)
    if options.kcp_export is not None:
        from fleethook.cli.inputs.kcp_export import read_export  # noqa: PLC0415 - as below

        if not decides:
            fail("--kcp-export is for commands about webhooks")
        return read_export(options.kcp_export, options.kubeconfig, context=options.context)
    from fleethook.cli.inputs.cluster_reader import (  # noqa: PLC0415 - commands about files start faster without asyncio
        read_cluster,
    )

    found = read_cluster(
        resources, options.kubeconfig, context=options.context, kcp=options.kcp, cache=options.kcp_cache_kubeconfig
    )
    if not decides:
        return found
    # An apiserver that is no kcp may have logical clusters by annotation, and these kinds as custom resources.
    defined = {one.object["metadata"]["name"] for one in found if key_of(one.object).group_kind == DEFINITION}
    further = [one for one in KCP if one.name in defined and one not in resources]
    if not options.kcp and any(cluster_of(one.object) for one in found if key_of(one.object)[1:] == _MARKED):
        further = [one for one in (APIBINDINGS, LOGICAL_CLUSTERS) if one not in resources]
    if further:
        found += read_cluster(further, options.kubeconfig, context=options.context)
    return found


def find_workspace(documents: Iterable[Document]) -> str:
    """Return the logical cluster of a workspace of kcp whose objects these are, ``""`` without its LogicalCluster."""
    keys = (key_of(document.object) for document in documents)
    return next((key.cluster for key in keys if key.group_kind == LOGICAL_CLUSTER), "")


def check_options(options: SourceOptions, files_option: str = "-f") -> None:
    """Exit with a message if the options contradict each other."""
    kubeconfig = "--kubeconfig" if options.kubeconfig is not None else "--context" if options.context else ""
    given = (files_option if options.files else "", kubeconfig, "--in-cluster" if options.in_cluster else "")
    named = [name for name in given if name]
    if len(named) > 1:
        hint = "; use --change for files that change the objects of a cluster" if named[0] == "-f" else ""
        fail(f"give only one of {' and '.join(named)}{hint}")
    if options.kcp and options.files:
        fail(f"--kcp reads a cluster: give --kubeconfig or --in-cluster in place of {files_option}")
    if options.kcp_cache_kubeconfig is not None and not options.kcp:
        fail("--kcp-cache-kubeconfig needs --kcp")
    if options.kcp_export is not None and (options.kcp or options.files):
        fail(f"give only one of --kcp-export and {'--kcp' if options.kcp else files_option}")


_SERVER_METADATA: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
)


def overlay(
    documents: Sequence[Document], manifests: Sequence[Document], *, namespace: str | None = None, kcp: bool = False
) -> tuple[list[Document], frozenset[ObjectKey]]:
    """Return the objects with the changes, and the keys of those that changed. Exits if a change does not fit.

    A manifest replaces the object with its cluster, group, kind, namespace and name, or adds it.

    Args:
        documents: The objects. Of two with the same key, the later one counts.
        manifests: Objects to apply.
        namespace: Namespace of manifests that name none, None to leave them without.
        kcp: Whether each object needs a logical cluster.
    """
    objects = {key_of(document.object): document for document in documents}
    namespaced = NAMESPACED | {key.group_kind for key in objects if key.namespace}
    applied: dict[ObjectKey, Document] = {}
    for manifest in manifests:
        located = manifest if namespace is None else _place(manifest, namespace, namespaced)
        key = key_of(located.object)
        # In files, an object without namespace and one in the namespace ``default`` are the same object.
        twin = key._replace(namespace={"": "default", "default": ""}.get(key.namespace, key.namespace))
        if namespace is None and key not in objects and twin in objects:
            key = twin
        if kcp and not key.cluster:
            fail(f"{manifest.place}: the logical cluster is unknown: add the annotation {CLUSTER_ANNOTATION}")
        if key in applied:
            name = "/".join(filter(None, (key.group_kind.kind, key.namespace, key.name)))
            fail(f"{manifest.place}: {name} is already defined at {applied[key].place}; remove one of them")
        present = objects.get(key)
        applied[key] = located if present is None else located._replace(object=_replace(located.object, present.object))
    # Objects that change keep their places.
    return [*{**objects, **applied}.values()], frozenset(applied)


def _replace(manifest: JSONObject, live: JSONObject) -> JSONObject:
    """Return a manifest with the status, and with the namespace and the metadata that others set on the object."""
    kept = {name: live["metadata"][name] for name in ("namespace", *_SERVER_METADATA) if name in live["metadata"]}
    given = {name: value for name, value in manifest["metadata"].items() if name != "namespace"}
    replaced = {**manifest, "metadata": {**kept, **given}}
    if "status" in live:
        replaced.setdefault("status", live["status"])
    return replaced

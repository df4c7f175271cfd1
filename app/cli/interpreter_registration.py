"""``fleethook interpret register``: Karmada is told which kinds and operations to send here, and no others."""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.cli.cluster import Resource, read_resource
from app.cli.failures import fail
from app.cli.interpreters import build_chain
from app.cli.json_output import write_json
from app.cli.manifests import documents
from app.cli.options import InterpretersOption
from app.cli.terminal import write, write_document, write_error
from app.cli.yaml_output import yaml_text
from app.interpret.lua.runner import Runner
from app.interpret.registrar import InterpreterRegistrar, encode_ca_bundle, select_from_store
from app.interpret.registration import PLURAL, Answers, build_configuration
from app.model.json import JSONObject
from app.model.karmada import (
    CONFIG_MAP_NAME,
    CUSTOMIZATION,
    INTERPRETER_CONFIGURATION,
    OWN_CONFIGURATION,
    VERSION,
)
from app.outbound.client import HookClient
from app.registration.paths import INTERPRET
from app.registration.webhooks import URLReference, service_of
from app.settings import Settings
from app.store import Store
from app.store.yaml_reader import Document

if TYPE_CHECKING:
    from app.kube.connection import Connection

_READ: Final = (
    Resource(CUSTOMIZATION, "resourceinterpretercustomizations", (VERSION,)),
    Resource(INTERPRETER_CONFIGURATION, PLURAL, (VERSION,)),
)


class Output(StrEnum):
    """How the configuration is printed."""

    YAML = "yaml"
    JSON = "json"


def register(
    service: Annotated[
        str | None, typer.Option(help="NAMESPACE/NAME or NAMESPACE/NAME:PORT of the Service in front of the server.")
    ] = None,
    webhook_url: Annotated[
        str | None, typer.Option(help="Address at which Karmada calls the server, instead of a Service.")
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="PEM authorities of the server's certificate (default: the system's).")
    ] = None,
    manifests: Annotated[
        list[Path] | None, typer.Option("--manifests", help="Customizations and hook configurations; may be repeated.")
    ] = None,
    interpreters: InterpretersOption = None,
    bundle: Annotated[bool, typer.Option(help="Whether the server uses the bundle that comes along.")] = True,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Read the customizations of this Karmada, and register there.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context in that file (default: the current one).")] = None,
    output: Annotated[
        Output | None, typer.Option("--output", "-o", help="Print the configuration, and change nothing.")
    ] = None,
) -> None:
    """Write the ResourceInterpreterWebhookConfiguration that sends Karmada's questions to a server.

    It names exactly the kinds and operations that the server answers from customizations, interpreters in Python, the
    bundle and Kubernetes' own kinds. With --kubeconfig it is applied, unless --output asks to print it; without, it is
    printed. Kinds that another configuration has are left out and listed on standard error. Exits 2 if something cannot
    be read or written.
    """
    client_config = _client_config(service, webhook_url, ca_file)
    given = documents(manifests or [])
    if kubeconfig is None:
        _print(_configuration(given, interpreters or [], client_config, bundle=bundle), output or Output.YAML)
        return
    from app.kube.connection import Connection  # noqa: PLC0415 - see app.kube
    from app.kube.errors import APIError, UnreachableError  # noqa: PLC0415 - as above

    async def work() -> None:
        async with Connection(kubeconfig, context=context) as connection:
            found = [*await _objects(connection), *given]
            if output is not None:
                _print(_configuration(found, interpreters or [], client_config, bundle=bundle), output)
                return
            store, answers = _prepared(found, interpreters or [], bundle=bundle)
            registrar = InterpreterRegistrar(
                connection, store, answers=lambda: answers, client_config=lambda: client_config
            )
            written = await registrar.write()
            if registrar.absent:
                fail(f"{connection.host} does not serve {PLURAL}: give the kubeconfig file of Karmada's own apiserver")
            state = "written" if written else "unchanged"
            write(f"{INTERPRETER_CONFIGURATION.kind} {OWN_CONFIGURATION} {state}")

    try:
        asyncio.run(work())
    except (APIError, UnreachableError) as error:
        fail(f"the configuration cannot be written: {error}")


def _client_config(service: str | None, webhook_url: str | None, ca_file: Path | None) -> JSONObject:
    if (service is None) == (webhook_url is None):
        fail("where is the server: give one of --service and --webhook-url")
    try:
        bundle = b"" if ca_file is None else ca_file.read_bytes()
    except OSError as error:
        fail(f"--ca-file cannot be read: {error}")
    if ca_file is None:
        write_error("note: without --ca-file Karmada trusts the authorities of its system only")
    reference = URLReference(webhook_url) if webhook_url is not None else service_of(service or "")
    found = reference.client_config(INTERPRET)
    return {**found, "caBundle": encode_ca_bundle(bundle)} if bundle else found


async def _objects(connection: "Connection") -> list[Document]:
    """Return the customizations, the configurations and ``karmada-config`` of a Karmada."""
    found = [one for resource in _READ for one in await read_resource(connection, resource)]
    namespace = Settings.model_fields["karmada_namespace"].default
    # As a list of one, which takes no other right than the server has.
    query = {"fieldSelector": f"metadata.name={CONFIG_MAP_NAME}"}
    listed = await connection.json("GET", f"/api/v1/namespaces/{namespace}/configmaps", query=query)
    found += [{**one, "apiVersion": "v1", "kind": "ConfigMap"} for one in listed.get("items") or ()]
    return [Document(one, connection.host, 0) for one in found]


def _prepared(objects: Sequence[Document], interpreters: Sequence[str], *, bundle: bool) -> tuple[Store, Answers]:
    store = Store()
    for one in objects:
        store.put(one.object)
    chain = build_chain(HookClient(allow_private=True), Runner(), interpreters, objects, bundle=bundle)
    return store, chain.answers()


def _configuration(
    objects: Sequence[Document], interpreters: Sequence[str], client_config: JSONObject, *, bundle: bool
) -> JSONObject:
    store, answers = _prepared(objects, interpreters, bundle=bundle)
    found = select_from_store(store, answers)
    write_error(*(f"note: {one}" for one in found.left_out))
    return build_configuration(found.rules, client_config)


def _print(configuration: JSONObject, output: Output) -> None:
    if output is Output.JSON:
        write_json(configuration)
    else:
        write_document(yaml_text(configuration))

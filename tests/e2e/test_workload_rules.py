"""The generated rules about workloads and their consequences, against a running kube-apiserver and its Go code."""

import json
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from fleethook.workload_schema import check_workload, normalize_workload
from fleethook.workload_schema.go_structs import load_structs, root_name
from fleethook.workload_schema.workload_check import load_json_schema
from schemas import quantities
from schemas.workloads import (
    FIELDS_FILE,
    OPENAPI_FILE,
    OPENAPI_PATH,
    fields_text,
    go_fields,
    openapi_text,
    with_list_keys,
    workload_schemas,
)
from tests.e2e.cluster import Api
from tests.e2e.controlplane import build
from tests.programs import require_go
from tests.workload_rules import load_rows, make_workload
from tests.workload_samples import full_deployment, full_stateful_set

Tokens = tuple[str | int, ...]
SAMPLES: dict[str, Callable[[], dict[str, Any]]] = {"Deployment": full_deployment, "StatefulSet": full_stateful_set}

# Behind feature gates that are off by default in 1.36: kube-apiserver drops them, and does not look at their values.
GATED = {
    ("apps.v1.RollingUpdateStatefulSetStrategy", "maxUnavailable"), ("core.v1.Lifecycle", "stopSignal"),
    ("core.v1.PodSpec", "schedulingGroup"), ("core.v1.VolumeProjection", "clusterTrustBundle"),
    ("core.v1.VolumeProjection", "podCertificate"),
}  # fmt: skip
# kube-apiserver sets these members of metadata, independent of the request.
OF_THE_SERVER = {
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generateName",
    "name",
    "namespace",
}
# kube-apiserver refuses even an empty list here.
ZERO_REFUSED = {"core.v1.PersistentVolumeClaimTemplate.metadata", "core.v1.PodSpec.resources"}

ZEROS: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0}
TRIED: dict[str, tuple[Any, ...]] = {
    "string": ("", "nonsense"), "bool": (False, True), "int32": (0, 1), "int64": (0, 1), "ResourceList": ({},),
    "IntOrString": (0, "", "0", "10%"), "Quantity": ("0", "0.5", "1024Mi", 0),
}  # fmt: skip
OF_EVERY_TYPE = ("x", 1.5, 2**40, {"a": True}, [{"a": []}])


@pytest.fixture(scope="module")
def same_version(admin: Api) -> None:
    version = admin["/version"]["gitVersion"]
    if version != build.version():
        pytest.skip(f"kube-apiserver is {version}, the files are of {build.version()}")


@pytest.fixture(scope="module")
def go(binaries: Path) -> None:
    require_go()


def test_the_openapi_schemas_are_those_of_kube_apiserver(admin: Api, same_version: None) -> None:
    schemas = workload_schemas(admin[OPENAPI_PATH]["components"]["schemas"])
    assert openapi_text(schemas) == OPENAPI_FILE.read_text(), "run `python -m schemas.workloads` and `make schemas`"


def test_the_fields_are_those_of_the_go_types(go: None) -> None:
    fields = with_list_keys(go_fields(), json.loads(OPENAPI_FILE.read_text()))
    assert fields_text(fields) == FIELDS_FILE.read_text(), "run `python -m schemas.workloads`"


def test_the_table_of_quantities_is_that_of_apimachinery(go: None) -> None:
    assert quantities.table() == quantities.TABLE.read_text(), "run `python -m schemas.quantities`"


class Server:
    """Creates workloads in a namespace, over one connection."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._path = f"/apis/apps/v1/namespaces/{namespace}"

    def create(self, workload: dict[str, Any], **query: str) -> tuple[int, Any]:
        status, answer, _ = self._api.call("POST", f"{self._path}/{workload['kind'].lower()}s", workload, **query)
        return status, answer


@pytest.fixture
def server(api: Api, namespace: str) -> Server:
    return Server(api, namespace)


def structs_in(node: Any, type_: str, tokens: Tokens = ()) -> Iterator[tuple[str, Tokens]]:
    """Each struct in a document, with its place."""
    type_ = type_.removeprefix("*")
    if type_.startswith("[]"):
        for index, element in enumerate(node):
            yield from structs_in(element, type_.removeprefix("[]"), (*tokens, index))
    elif type_ in load_structs():
        yield type_, tokens
        for name, value in node.items():
            yield from structs_in(value, load_structs()[type_][name].type, (*tokens, name))


def first_structs() -> Iterator[tuple[str, str, Tokens]]:
    """The kind, struct and place where each struct is first in the samples."""
    seen = set()
    for kind, sample in SAMPLES.items():
        for struct, tokens in structs_in(sample(), root_name(kind)):
            if struct not in seen:
                seen.add(struct)
                yield kind, struct, tokens


def at(node: Any, *tokens: str | int) -> Any:
    """Return the value at a place."""
    for token in tokens:
        node = node[token]
    return node


def edit_workload(kind: str, tokens: Tokens, edit: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    workload = SAMPLES[kind]()
    edit(at(workload, *tokens))
    return workload


def set_members(kind: str, values: Callable[[str, str], Any]) -> dict[str, Any]:
    """A sample in which absent members of every struct are set to values, unless the value is Ellipsis."""
    workload = SAMPLES[kind]()
    for struct, tokens in list(structs_in(workload, root_name(kind))):
        node = at(workload, *tokens)
        for name in load_structs()[struct].keys() - node.keys():
            value = values(struct, name)
            if value is not ...:
                node[name] = value
    return workload


def find_missing(wanted: Any, stored: Any, pointer: str = "") -> Iterator[str]:
    """The places where a stored value does not contain a wanted one."""
    if isinstance(wanted, dict) and isinstance(stored, dict):
        for name, value in wanted.items():
            yield from (
                find_missing(value, stored[name], f"{pointer}/{name}") if name in stored else [f"{pointer}/{name}"]
            )
    elif isinstance(wanted, list) and isinstance(stored, list) and len(wanted) == len(stored):
        for index, pair in enumerate(zip(wanted, stored, strict=True)):
            yield from find_missing(*pair, f"{pointer}/{index}")
    elif wanted != stored or type(wanted) is not type(stored):
        yield pointer


def assert_stored(server: Server, workload: dict[str, Any]) -> Any:
    """Create a workload and return the stored one, which contains the normalized one."""
    status, stored = server.create(workload)
    assert status == 201, stored["message"]
    assert list(find_missing(normalize_workload(workload, workload["kind"]), stored)) == []
    return stored


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_samples_are_stored_as_they_are(server: Server, kind: str) -> None:
    workload = SAMPLES[kind]()
    assert normalize_workload(workload, kind) is workload
    assert_stored(server, workload)


@pytest.mark.parametrize("kind", SAMPLES)
def test_nulls_are_not_stored(server: Server, kind: str) -> None:
    workload = set_members(kind, lambda _struct, _name: None)
    assert normalize_workload(workload, kind) == SAMPLES[kind]()
    assert check_workload(workload, kind) == []
    assert_stored(server, workload)


def zero_of(struct: str, name: str) -> Any:
    field = load_structs()[struct][name]
    if (
        f"{struct}.{name}" in ZERO_REFUSED
        or struct == "meta.v1.ObjectMeta"
        or (struct, name) == ("core.v1.ResourceRequirements", "claims")
    ):
        return ...
    if field.type.startswith("[]"):
        return []
    if field.type.startswith("map") or field.type == "ResourceList":
        return {}
    return ZEROS.get(field.type, ...) if field.omit else ...


@pytest.mark.parametrize("kind", SAMPLES)
def test_zero_values_are_not_stored(server: Server, kind: str) -> None:
    workload = set_members(kind, zero_of)
    assert workload != SAMPLES[kind]()
    assert normalize_workload(workload, kind) == SAMPLES[kind]()
    assert check_workload(workload, kind) == []
    assert_stored(server, workload)


@pytest.mark.parametrize("kind", SAMPLES)
def test_unknown_members_are_not_stored(server: Server, kind: str) -> None:
    workload = SAMPLES[kind]()
    for _, tokens in list(structs_in(workload, root_name(kind))):
        at(workload, *tokens)["misspelled"] = {"a": [1]}
    assert normalize_workload(workload, kind) == SAMPLES[kind]()
    assert "misspelled" not in json.dumps(assert_stored(server, workload))
    assert server.create(workload, fieldValidation="Strict")[0] == 400


def test_each_field_alone_is_stored_in_normalized_form(server: Server) -> None:
    stored = 0
    for kind, struct, tokens in first_structs():
        for name, field in load_structs()[struct].items():
            if (
                (struct, name) in GATED
                or (struct == "meta.v1.ObjectMeta" and name in OF_THE_SERVER)
                or len(tokens) + (name in ("apiVersion", "kind")) == 1
            ):
                continue
            base = field.type.removeprefix("*")
            values = TRIED.get(base, ([],) if base.startswith("[]") else ({},))
            for value in values:
                workload = edit_workload(kind, tokens, lambda node, one={name: value}: node.update(one))
                status, answer = server.create(workload)
                if status == 201:
                    stored += 1
                    document = normalize_workload(workload, kind)
                    assert list(find_missing(document, answer)) == [], (struct, name, value)
                    assert check_workload(workload, kind) == [], (struct, name, value)
    assert stored > 300


def test_odd_quantities_are_stored_in_canonical_form(server: Server) -> None:
    rows = [line.split("\t") for line in quantities.TABLE.read_text().splitlines()]
    texts = [text for text, plain, _ in rows if plain and not plain.startswith("-")][::4]
    workload = full_deployment()
    pod = workload["spec"]["template"]["spec"]
    del pod["resources"]
    for number, text in enumerate(texts):
        pod["volumes"].append({"name": f"q{number}", "emptyDir": {"sizeLimit": text}})
        pod["containers"].append({"name": f"q{number}", "image": "a", "resources": {"limits": {"cpu": text}}})
    assert len(texts) > 400
    assert_stored(server, workload)


def test_values_of_a_wrong_type_are_found_where_kube_apiserver_finds_them(server: Server) -> None:
    refused = 0
    for kind, struct, tokens in first_structs():
        for name in load_structs()[struct]:
            if (
                (struct, name) in GATED
                or (struct == "meta.v1.ObjectMeta" and len(tokens) == 1)
                or not tokens
                or name == "status"
            ):
                continue
            for value in OF_EVERY_TYPE:
                workload = edit_workload(kind, tokens, lambda node, one={name: value}: node.update(one))
                status, answer = server.create(workload, dryRun="All", fieldValidation="Strict")
                found = check_workload(workload, kind)
                # 400: it cannot be decoded. 422: it can, but validation refuses it, for reasons that need not be ours.
                agreed = found != [] if status == 400 else found == [] if status == 201 else True
                assert agreed, (struct, name, value, status, answer.get("message"), found)
                refused += status == 400
    assert refused > 1000


def invalid_edits() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Samples without a required member, with an empty one, and with a value that is none of an enumeration."""
    published = json.loads(OPENAPI_FILE.read_text(encoding="utf-8"))
    for kind, struct, tokens in first_structs():
        for name in published.get(f"io.k8s.api.{struct}", {}).get("required", ()):
            yield struct, name, edit_workload(kind, tokens, lambda node, name=name: node.pop(name))
        for name, schema in load_json_schema(kind)["definitions"][struct].get("properties", {}).items():
            values = ("", "Nonsense") if "enum" in schema else ("",) if schema.get("minLength") else ()
            for value in values if (struct, name) not in GATED else ():
                yield struct, name, edit_workload(kind, tokens, lambda node, one={name: value}: node.update(one))


def test_missing_and_empty_members_and_values_are_found_where_kube_apiserver_finds_them(server: Server) -> None:
    edits = list(invalid_edits())
    for struct, name, workload in edits:
        status, answer = server.create(workload, dryRun="All")
        found = check_workload(workload, workload["kind"])
        assert (status != 201) == bool(found), (struct, name, answer.get("message"), found)
    assert len(edits) > 150


def test_refused_workloads_have_the_answer_of_the_table(server: Server) -> None:
    for row in load_rows("refused"):
        status, answer = server.create(make_workload(row), dryRun="All")
        causes = [(cause["field"], cause["message"]) for cause in answer.get("details", {}).get("causes", ())]
        same = [message for field, message in causes if field == row["answer"] and row["message"] in message]
        assert (status, bool(same)) == (422, True), (row["name"], answer)


def test_accepted_workloads_are_accepted(server: Server) -> None:
    for row in load_rows("accepted"):
        status, answer = server.create(make_workload(row), dryRun="All")
        assert status == 201, (row["name"], answer["message"])


def test_no_accepted_pair_of_members_has_a_finding(server: Server) -> None:
    accepted = 0
    for kind, struct, tokens in first_structs():
        if len(tokens) < 2 or struct == "meta.v1.ObjectMeta":
            continue
        fields = [(name, field) for name, field in load_structs()[struct].items() if (struct, name) not in GATED]
        tried = [(name, value) for name, field in fields for value in TRIED.get(field.type.removeprefix("*"), ())]
        for pair in list(combinations(tried, 2))[::7]:
            workload = edit_workload(kind, tokens, lambda node, pair=pair: node.update(pair))
            if server.create(workload, dryRun="All")[0] == 201:
                accepted += 1
                assert check_workload(workload, kind) == [], (struct, pair)
    assert accepted > 200


POD_LISTS: tuple[tuple[str, bool], ...] = (
    *((name, True) for name in ("containers", "initContainers", "volumes", "resourceClaims", "schedulingGates",
                                "topologySpreadConstraints")),
    *((name, False) for name in ("hostAliases", "imagePullSecrets", "tolerations", "readinessGates")),
)  # fmt: skip
CONTAINER_LISTS: tuple[tuple[str, bool], ...] = (
    *((name, True) for name in ("ports", "volumeMounts", "volumeDevices", "resizePolicy")),
    *((name, False) for name in ("env", "envFrom")),
)


def test_repeated_elements_are_found_where_kube_apiserver_finds_them(server: Server) -> None:
    for lists, path in ((POD_LISTS, ()), (CONTAINER_LISTS, ("containers", 0))):
        for name, refused in lists:
            workload = full_deployment()
            elements = at(workload["spec"]["template"]["spec"], *path, name)
            elements.append(elements[0])
            found = {finding.problem for finding in check_workload(workload, "Deployment")}
            wanted = (422, {"duplicate"}) if refused else (201, set())
            assert (server.create(workload, dryRun="All")[0], found) == wanted, name
    workload = full_deployment()
    workload["spec"]["template"]["spec"]["initContainers"][0]["name"] = "app"
    assert [finding.problem for finding in check_workload(workload, "Deployment")] == ["duplicate"]
    assert server.create(workload, dryRun="All")[0] == 422

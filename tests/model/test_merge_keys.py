from fleethook.model.merge_keys import WORKLOAD, MergeSchema

CONTAINER = {"": "name", "/env": "name", "/ports": "containerPort", "/volumeDevices": "devicePath", "/volumeMounts": "mountPath"}  # fmt: skip
POD = "/spec/template/spec"
EPHEMERAL = f"{POD}/volumes/ephemeral/volumeClaimTemplate/metadata"

# All patchMergeKey tags of k8s.io/api v0.36 that a strategic merge of a Deployment or a StatefulSet reaches. It does not
# reach tags inside replaced lists such as volumeClaimTemplates.
TAGS = {
    "/metadata/ownerReferences": "uid",
    "/spec/template/metadata/ownerReferences": "uid",
    "/status/conditions": "type",
    f"{EPHEMERAL}/ownerReferences": "uid",
    f"{POD}/hostAliases": "ip",
    f"{POD}/imagePullSecrets": "name",
    f"{POD}/resourceClaims": "name",
    f"{POD}/schedulingGates": "name",
    f"{POD}/topologySpreadConstraints": "topologyKey",
    f"{POD}/volumes": "name",
} | {
    f"{POD}/{kind}{field}": key
    for kind in ("containers", "initContainers", "ephemeralContainers")
    for field, key in CONTAINER.items()
}


def walk(schema: MergeSchema, path: str = "") -> dict[str, MergeSchema]:
    found = {path: schema}
    for name, field in schema.fields.items():
        found |= walk(field, f"{path}/{name}")
    return found


def test_merge_keys_equal_the_tags_of_the_api() -> None:
    assert {path: schema.merge_key for path, schema in walk(WORKLOAD).items() if schema.merge_key} == TAGS


def test_sets_of_scalars_equal_the_tags_of_the_api() -> None:
    sets = {path for path, schema in walk(WORKLOAD).items() if schema.primitive}
    assert sets == {"/metadata/finalizers", "/spec/template/metadata/finalizers", f"{EPHEMERAL}/finalizers"}


def test_unions_equal_the_tags_of_the_api() -> None:
    unions = {path for path, schema in walk(WORKLOAD).items() if schema.retain_keys}
    # updateStrategy has no tag, but ValidateStatefulSetSpec rejects rollingUpdate with type OnDelete.
    assert unions == {"/spec/strategy", "/spec/updateStrategy", f"{POD}/volumes", f"{POD}/resourceClaims"}

from fleethook.engines.overrider.schema.fields import load_structs, root_name, struct_name


def test_lists_have_the_keys_of_server_side_apply() -> None:
    keys = {
        f"{struct.rpartition('.')[2]}.{name}": dict(field.keys)
        for struct, members in load_structs().items()
        for name, field in members.items()
        if field.keys and not struct.endswith("Status") and "Ephemeral" not in struct
    }
    assert keys == {
        "Container.env": {"name": None},
        "Container.ports": {"containerPort": None, "protocol": "TCP"},
        "Container.volumeDevices": {"devicePath": None},
        "Container.volumeMounts": {"mountPath": None},
        "ObjectMeta.ownerReferences": {"uid": None},
        "PodSpec.containers": {"name": None},
        "PodSpec.ephemeralContainers": {"name": None},
        "PodSpec.hostAliases": {"ip": None},
        "PodSpec.imagePullSecrets": {"name": None},
        "PodSpec.initContainers": {"name": None},
        "PodSpec.resourceClaims": {"name": None},
        "PodSpec.schedulingGates": {"name": None},
        "PodSpec.topologySpreadConstraints": {"topologyKey": None, "whenUnsatisfiable": None},
        "PodSpec.volumes": {"name": None},
        "ResourceRequirements.claims": {"name": None},
    }


def test_every_struct_that_a_field_names_is_there() -> None:
    structs = load_structs()
    assert {root_name("Deployment"), root_name("StatefulSet")} <= structs.keys()
    named = {struct_name(field.type) for members in structs.values() for field in members.values()}
    assert named - {None} <= structs.keys()


def test_fields_match_the_go_tags() -> None:
    volumes = load_structs()["core.v1.PodSpec"]["volumes"]
    assert (volumes.type, volumes.omit) == ("[]core.v1.Volume", "empty")
    assert (volumes.patch_key, volumes.patch_strategy) == ("name", "merge,retainKeys")
    assert load_structs()["apps.v1.DeploymentSpec"]["selector"].omit == ""

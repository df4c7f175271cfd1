"""Tells Karmada about Databases: their number of replicas, their health, and the objects that they depend on."""

from fleethook.interpret import interpreter

database = interpreter("db.example.com/v1", "Database")


@database.replicas
def replicas(declared):
    requests = declared["spec"].get("resources", {}).get("requests", {})
    return declared["spec"].get("members", 1), {"resourceRequest": requests} if requests else None


@database.revise_replicas
def revise(declared, wanted):
    declared["spec"]["members"] = wanted


@database.healthy
def healthy(observed):
    return observed.get("status", {}).get("readyMembers", 0) >= observed["spec"].get("members", 1)


@database.dependencies
def dependencies(declared):
    namespace = declared["metadata"]["namespace"]
    return [{"apiVersion": "v1", "kind": "Secret", "namespace": namespace, "name": declared["spec"]["credentials"]}]

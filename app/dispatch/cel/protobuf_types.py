"""The types that Kubernetes adds to CEL, as protobuf messages built at run time.

cel-cpp supports only messages as foreign values, so a quantity or an IP address is a message. There are two sets of
types. The type checker uses messages with the fields of kube-apiserver's types: those of ``request``, and none for a
quantity. The evaluation uses messages that store their value in fields. No checked expression can name those fields.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from google.protobuf import descriptor_pool, message_factory, struct_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

MessageType: TypeAlias = type[Message]

_PACKAGE: Final = "kubernetes"
_STRING: Final = FieldDescriptorProto.TYPE_STRING
_SCALARS: Final = {"string": _STRING, "bool": FieldDescriptorProto.TYPE_BOOL}

# Each text is the name of a field, a colon and its type; * marks a repeated field.
_KIND: Final = ("group:string", "version:string", "kind:string")
_RESOURCE: Final = ("group:string", "version:string", "resource:string")
# k8s.io/apiserver/pkg/admission/plugin/cel/compile.go, BuildRequestType. Protobuf has no type for `extra`, a map of
# lists, so its type is dynamic here.
_CHECKED: Final = {
    "GroupVersionKind": _KIND,
    "GroupVersionResource": _RESOURCE,
    "UserInfo": ("username:string", "uid:string", "groups:string*", "extra:dyn"),
    "AdmissionRequest": (
        "kind:GroupVersionKind",
        "resource:GroupVersionResource",
        "subResource:string",
        "requestKind:GroupVersionKind",
        "requestResource:GroupVersionResource",
        "requestSubResource:string",
        "name:string",
        "namespace:string",
        "operation:string",
        "userInfo:UserInfo",
        "dryRun:bool",
        "options:dyn",
    ),
}

# The fields of an access check: those of AccessQuestion.
_CHECK: Final = (
    "user:string",
    "uid:string",
    "groups:string*",
    "extra:string",
    "path:string",
    "group:string",
    "version:string",
    "resource:string",
    "subresource:string",
    "namespace:string",
    "name:string",
    "fieldSelector:string",
    "labelSelector:string",
)
_EVALUATED: Final = {
    "Quantity": ("nanos:string",),
    "URL": ("text:string",),
    "Semver": ("text:string",),
    "NamedFormat": ("name:string",),
    "net.IP": ("text:string",),
    "net.CIDR": ("text:string",),
    "authorization.Authorizer": _CHECK,
    "authorization.PathCheck": _CHECK,
    "authorization.GroupCheck": _CHECK,
    "authorization.ResourceCheck": _CHECK,
    "authorization.Decision": ("allowed:bool", "reason:string", "error:string"),
}


def qualify_name(name: str) -> str:
    """Return the qualified name of a type in expressions; net.IP and net.CIDR are not in Kubernetes' package."""
    return name if name.startswith("net.") else f"{_PACKAGE}.{name}"


def build_checked_pool() -> descriptor_pool.DescriptorPool:
    """Return the types for the type checker."""
    return _build_pool({**_CHECKED, **dict.fromkeys(_EVALUATED, ())})


def _build_pool(types: dict[str, tuple[str, ...]]) -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    for package, file in _build_files(types):
        file.package = package
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _build_files(types: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, FileDescriptorProto]]:
    files: dict[str, FileDescriptorProto] = {}
    for name, members in types.items():
        package, _, last = qualify_name(name).rpartition(".")
        file = files.setdefault(
            package,
            FileDescriptorProto(name=f"{package}.proto", syntax="proto3", dependency=["google/protobuf/struct.proto"]),
        )
        _declare(file.message_type.add(name=last), members)
    yield from files.items()


def _declare(message: DescriptorProto, members: Iterable[str]) -> None:
    for number, member in enumerate(members, start=1):
        name, _, type_ = member.partition(":")
        label = FieldDescriptorProto.LABEL_REPEATED if type_.endswith("*") else FieldDescriptorProto.LABEL_OPTIONAL
        field = message.field.add(name=name, json_name=name, number=number, label=label)
        type_ = type_.rstrip("*")
        if type_ in _SCALARS:
            field.type = _SCALARS[type_]
        else:
            field.type = FieldDescriptorProto.TYPE_MESSAGE
            field.type_name = ".google.protobuf.Value" if type_ == "dyn" else f".{qualify_name(type_)}"


EVALUATED: Final = _build_pool(_EVALUATED)


def get_message_type(name: str) -> MessageType:
    """Return the message class of a type for evaluations, by Kubernetes' name for the type."""
    return message_factory.GetMessageClass(EVALUATED.FindMessageTypeByName(qualify_name(name)))

"""Reads checked expressions, the output of cel-cpp's type checker.

cel-cpp serializes a checked expression as ``cel.expr.CheckedExpr`` (github.com/google/cel-spec,
proto/cel/expr/checked.proto). The messages here declare only the fields that the planner reads.
"""

from typing import Any, Final

from google.protobuf import any_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

# Protobuf builds these classes at run time, so there is no static type for them.
Node = Any
Tree = Any

_SCALARS: Final = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "enum": FieldDescriptorProto.TYPE_INT32,
}
_TREE: Final = {
    "Constant": (
        "null_value=1:enum",
        "bool_value=2:bool",
        "int64_value=3:int64",
        "uint64_value=4:uint64",
        "double_value=5:double",
        "string_value=6:string",
        "bytes_value=7:bytes",
    ),
    "Ident": ("name=1:string",),
    "Select": ("operand=1:Expr", "field=2:string", "test_only=3:bool"),
    "Call": ("target=1:Expr", "function=2:string", "args=3:Expr*"),
    "List": ("elements=1:Expr*", "optional_indices=2:int32*"),
    "Entry": ("map_key=3:Expr", "value=4:Expr", "optional_entry=5:bool"),
    "Struct": ("message_name=1:string", "entries=2:Entry*"),
    "Comprehension": (
        "iter_var=1:string",
        "iter_var2=8:string",
        "accu_var=3:string",
        "iter_range=2:Expr",
        "accu_init=4:Expr",
        "loop_condition=5:Expr",
        "loop_step=6:Expr",
        "result=7:Expr",
    ),
    "Expr": (
        "id=2:int64",
        "const=3:Constant",
        "ident=4:Ident",
        "select=5:Select",
        "call=6:Call",
        "list=7:List",
        "struct=8:Struct",
        "comprehension=9:Comprehension",
    ),
    "Reference": ("name=1:string", "overload_id=3:string*"),
    "ReferenceEntry": ("key=1:int64", "value=2:Reference"),
    "Checked": ("references=2:ReferenceEntry*", "expr=4:Expr"),
}


def _build_checked_type() -> Any:
    file = FileDescriptorProto(name="tree.proto", package="tree", syntax="proto3")
    for name, members in _TREE.items():
        message = file.message_type.add(name=name)
        for member in members:
            field, _, rest = member.partition("=")
            number, _, type_ = rest.partition(":")
            row = message.field.add(
                name=field,
                number=int(number),
                label=FieldDescriptorProto.LABEL_REPEATED
                if type_.endswith("*")
                else FieldDescriptorProto.LABEL_OPTIONAL,
            )
            type_ = type_.rstrip("*")
            if type_ in _SCALARS:
                row.type = _SCALARS[type_]
                if name == "Constant":
                    # Upstream declares them as a oneof, which tells an empty string from an absent one.
                    row.proto3_optional = True
                    row.oneof_index = len(message.oneof_decl)
                    message.oneof_decl.add(name=f"_{field}")
            else:
                row.type, row.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".tree.{type_}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tree.Checked"))


_CHECKED: Final = _build_checked_type()


def read_tree(serialized: bytes) -> Tree:
    """Return the tree in the output of cel-cpp's ``Expression.serialize``."""
    envelope = any_pb2.Any()
    envelope.ParseFromString(serialized)
    return _CHECKED.FromString(envelope.value)


def find_set_member(message: Any, *, after: int = 0) -> str:
    """Return the name of the field of a oneof that is set, ``""`` if none is.

    Args:
        message: A node or a constant.
        after: Fields up to this number do not belong to the oneof.
    """
    return next((field.name for field, _ in message.ListFields() if field.number > after), "")

"""Checked expressions as trees.

cel-cpp hands out a checked expression as a serialized ``cel.expr.CheckedExpr`` (github.com/google/cel-spec,
proto/cel/expr/checked.proto). Only the members that are read or changed are declared; protobuf keeps the others.
"""

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import any_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

# The messages are built in code, so no static type knows their members.
Node = Any
Tree = Any

_SCALARS: Final = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "enum": FieldDescriptorProto.TYPE_INT32,
}
_TREE: Final = {
    "Constant": ("null_value=1:enum", "bool_value=2:bool", "int64_value=3:int64", "string_value=6:string"),
    "Ident": ("name=1:string",),
    "Select": ("operand=1:Expr", "field=2:string"),
    "Call": ("target=1:Expr", "function=2:string", "args=3:Expr*"),
    "List": ("elements=1:Expr*",),
    "Entry": ("map_key=3:Expr", "value=4:Expr", "optional_entry=5:bool"),
    "Struct": ("entries=2:Entry*",),
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
    "Type": (
        "null=2:enum",
        "primitive=3:enum",
        "well_known=5:enum",
        "list_type=6:Any",
        "map_type=7:Any",
        "message_type=9:string",
        "type=11:Any",
        "abstract_type=14:Any",
    ),
    "Any": (),
    "TypeEntry": ("key=1:int64", "value=2:Type"),
    "Checked": ("references=2:ReferenceEntry*", "types=3:TypeEntry*", "expr=4:Expr"),
}


def _checked_type() -> Any:
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
                if name in ("Constant", "Type"):
                    # Their members are a oneof upstream: presence counts, an empty text is not an absent one.
                    row.proto3_optional = True
                    row.oneof_index = len(message.oneof_decl)
                    message.oneof_decl.add(name=f"_{field}")
            else:
                row.type, row.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".tree.{type_}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tree.Checked"))


_CHECKED: Final = _checked_type()
_TYPE_URL: Final = "type.googleapis.com/cel.expr.CheckedExpr"


def read_tree(serialized: bytes) -> Tree:
    """Return the tree of what cel-cpp's ``Expression.serialize`` gives."""
    envelope = any_pb2.Any()
    envelope.ParseFromString(serialized)
    return _CHECKED.FromString(envelope.value)


def write_tree(tree: Tree) -> bytes:
    """Return what cel-cpp's ``Env.deserialize`` takes."""
    return any_pb2.Any(type_url=_TYPE_URL, value=tree.SerializeToString()).SerializeToString()


def children(node: Node) -> Iterator[Node]:
    """Yield the nodes right below a node."""
    if node.HasField("select"):
        yield node.select.operand
    elif node.HasField("call"):
        if node.call.HasField("target"):
            yield node.call.target
        yield from node.call.args
    elif node.HasField("list"):
        yield from node.list.elements
    elif node.HasField("struct"):
        for entry in node.struct.entries:
            if entry.HasField("map_key"):
                yield entry.map_key
            yield entry.value
    elif node.HasField("comprehension"):
        loop = node.comprehension
        yield from (loop.iter_range, loop.accu_init, loop.loop_condition, loop.loop_step, loop.result)


def nodes(root: Node) -> Iterator[Node]:
    """Yield every node, children before their parents: a node may be replaced while its parent is still to come."""
    for child in children(root):
        yield from nodes(child)
    yield root


def copy_of(node: Node) -> Node:
    """Return a node that is the same and of its own."""
    copied = type(node)()
    copied.CopyFrom(node)
    return copied


def ident(name: str, *, number: int = 0) -> Node:
    """Return a node that reads a variable."""
    node = _new()
    node.id, node.ident.name = number, name
    return node


def constant(value: int | str | None) -> Node:
    """Return a node for an integer, a text, or null."""
    node = _new()
    if value is None:
        node.const.null_value = 0
    elif isinstance(value, int):
        node.const.int64_value = value
    else:
        node.const.string_value = value
    return node


def call(function: str, *arguments: Node) -> Node:
    """Return a node that calls a function with copies of nodes."""
    node = _new()
    node.call.function = function
    node.call.args.extend(arguments)
    return node


def member_call(function: str, target: Node, *arguments: Node) -> Node:
    """Return a node that calls a function of ``target``, with copies of nodes."""
    node = call(function, *arguments)
    node.call.target.CopyFrom(target)
    return node


def replace(node: Node, by: Node) -> None:
    """Let a node be another one and keep its number, by which the type of its value is known."""
    number = node.id
    node.CopyFrom(by)
    node.id = number


def only_if(node: Node, condition: Node) -> None:
    """Let a node be evaluated only if ``condition`` is true. Otherwise its value is false, of whatever type it was."""
    no = _new()
    no.const.bool_value = False
    replace(node, call("_?_:_", condition, node, no))


def let(node: Node, name: str, value: Node) -> None:
    """Give ``value`` a name within a node: a loop of no steps, as in cel-go's cel.bind."""
    bound = _new()
    loop = bound.comprehension
    loop.iter_var, loop.accu_var = "@unused", name
    loop.iter_range.list.SetInParent()
    loop.accu_init.CopyFrom(value)
    loop.loop_condition.const.bool_value = False
    loop.loop_step.ident.name = name
    loop.result.CopyFrom(node)
    replace(node, bound)


def _new() -> Node:
    return copy_of(_CHECKED().expr)

"""Reads the docstrings below the attributes of a class, which Python does not keep."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise


def read_attribute_texts(class_: type) -> Iterator[tuple[str, str]]:
    """Yield the name and the text, on one line, of each annotated attribute of a class that has a docstring."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(class_))).body
    assert isinstance(definition, ast.ClassDef)
    for attribute, text in pairwise(definition.body):
        if isinstance(attribute, ast.AnnAssign) and isinstance(text, ast.Expr):
            yield ast.unparse(attribute.target), " ".join(str(ast.literal_eval(text.value)).split())

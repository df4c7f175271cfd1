"""Interpreters in Python: the answers about one kind that Karmada asks for.

Write a file and name it to ``fleethook serve --interpreters FILE``::

    from fleethook.interpret import interpreter

    foo = interpreter("foo.example.com/v1alpha1", "Foo")

    @foo.healthy
    def healthy(observed):
        return observed["status"]["phase"] == "Ready"

`Interpreter.answer` asks an interpreter one `Question`, for tests without a server.
"""

from app.interpret import Interpreter, interpreter
from app.interpret.access import InterpretError
from app.interpret.python_interpreter import LoadError
from app.interpret.question import Answer, Question
from app.model.karmada import Operation

__all__ = ["Answer", "InterpretError", "Interpreter", "LoadError", "Operation", "Question", "interpreter"]

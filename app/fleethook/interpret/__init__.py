"""Interprets resources for Karmada: replicas, status, health and dependencies of built-in and custom kinds.

To support another kind, write a file and pass it to ``fleethook serve --interpreters FILE``::

    from fleethook.interpret import interpreter

    foo = interpreter("foo.example.com/v1alpha1", "Foo")

    @foo.healthy
    def healthy(observed):
        return observed["status"]["phase"] == "Ready"
"""

from fleethook.interpret.interpreter import Answer, Interpreter, InterpretError, LoadError, Question, interpreter
from fleethook.model.karmada import Operation

__all__ = ["Answer", "InterpretError", "Interpreter", "LoadError", "Operation", "Question", "interpreter"]

"""Interpreting resources for Karmada: replicas, status, health, dependencies, of kinds that it knows and of one's own.

To teach it a kind, write a file and name it to ``fleethook serve --interpreters FILE``::

    from fleethook.interpret import interpreter

    foo = interpreter("foo.example.com/v1alpha1", "Foo")

    @foo.healthy
    def healthy(observed):
        return observed["status"]["phase"] == "Ready"
"""

from app.interpret.python_interpreter import Interpreter, interpreter

__all__ = ["Interpreter", "interpreter"]

"""Unreadable input as a result of a command, in the format of its output, so that other tools show it with its line."""

import contextlib
from collections.abc import Iterator, Sequence

from fleethook.cli.inputs.manifests import InputError
from fleethook.cli.output.annotations import Annotation, AnnotationFormat, write_annotations
from fleethook.cli.output.findings_output import UNREADABLE_INPUT
from fleethook.cli.output.json_output import write_json
from fleethook.cluster.manifests.yaml_reader import ManifestError
from fleethook.model.json import JSONObject


@contextlib.contextmanager
def report_input_errors(output: str) -> Iterator[None]:
    """Write unreadable input of the block to standard output, too, if the format of the output is for other tools.

    ``json`` gets an object with the member ``errors``. Formats for people get nothing, because standard error has it.
    """
    try:
        yield
    except InputError as error:
        if output == "json":
            write_json({"errors": [make_error_row(one) for one in error.errors]})
        elif output in [*AnnotationFormat]:
            write_annotations(annotate_errors(error.errors), AnnotationFormat(output))
        raise


def annotate_errors(errors: Sequence[ManifestError]) -> list[Annotation]:
    """Return the annotations of unreadable input; an error about a whole file is in its first line."""
    return [
        Annotation("error", UNREADABLE_INPUT, one.source, one.reason, _find_file(one), max(one.line, 1))
        for one in errors
    ]


def _find_file(error: ManifestError) -> str:
    return "" if error.source == "<stdin>" else error.source


def make_error_row(error: ManifestError) -> JSONObject:
    """Return the error as JSON."""
    return {"level": "error", "code": UNREADABLE_INPUT, "text": error.reason, "place": error.place}

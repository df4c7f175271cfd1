from fleethook.cel.compile_error_list import SourceErrors


def test_errors_are_sorted_by_their_places_and_marked() -> None:
    errors = SourceErrors("a\n\tb\u00e9c")
    errors.add(4, "later")
    errors.add(0, "first")
    errors.add_without_place("everywhere")

    assert errors.format() == (
        "ERROR: <input>:-1:0: everywhere\n"
        "ERROR: <input>:1:1: first\n | a\n | ^\n"
        "ERROR: <input>:2:3: later\n |  b\u00e9c\n | ..\uff3e"
    )


def test_errors_beyond_a_hundred_are_counted() -> None:
    errors = SourceErrors("x" * 20_000)
    for offset in range(103):
        errors.add(offset, "bad")

    assert errors.format().splitlines()[-1] == "3 more errors were truncated"
    assert len(errors.format().splitlines()) == 101
    assert errors
    assert not SourceErrors("")

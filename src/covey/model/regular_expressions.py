"""Regular expressions of callers, in RE2's syntax: a match takes time linear in the length of the text."""

from functools import lru_cache

import re2

from covey.model.errors import Invalid

_MAX_LENGTH = 255  # the length of a name
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
_OPTIONS.dot_nl = True  # as in PostgreSQL
_OPTIONS.max_mem = 1 << 17  # some 2,000 states: PostgreSQL takes seconds to compile nested repetitions beyond that


def check(expression: str) -> None:
    """Raises Invalid, with the reason, for an expression that is too long or that RE2 does not support."""
    if len(expression) > _MAX_LENGTH:
        raise Invalid(f"The regular expression has {len(expression)} characters; the limit is {_MAX_LENGTH}.")
    try:
        _compiled(expression)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise Invalid(f"It is not a regular expression, or not a supported one: {reason}") from error


def matches(expression: str, text: str) -> bool:
    """Return whether a checked expression matches a part of the text."""
    return _compiled(expression).search(text) is not None


@lru_cache(maxsize=64)
def _compiled(expression: str) -> "re2._Regexp":
    return re2.compile(expression, _OPTIONS)

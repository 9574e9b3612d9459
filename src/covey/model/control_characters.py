"""Control characters: what a terminal would carry out, or a log would take for another line."""

import re

CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
CONTROL_IN_TEXT = re.compile("[\0-\b\v\f\x0e-\x1f\x7f-\x9f]")  # a text may have tabs and several lines
ONE_LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"  # a pattern of JSON Schema


def escape(text: str, pattern: re.Pattern[str] = CONTROL_IN_TEXT) -> str:
    r"""Return the text with control characters as \x1b. The default pattern keeps tabs and line ends."""
    return pattern.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def escape_json(document: str) -> str:
    """Return the same JSON with the control characters escaped that JSON admits: U+007F to U+009F."""
    return CONTROL_IN_TEXT.sub(lambda found: f"\\u{ord(found[0]):04x}", document)

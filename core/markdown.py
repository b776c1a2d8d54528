"""Text of foreign origin (names, prompts, errors, addresses) made safe inside Markdown.

It always becomes one line: a line break could begin a heading, a list or a new paragraph, and in inline
code it would end the code, so that the rest of the text could draw an image and call its host.
"""

MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>()#+-.!|~$:&=@"})


def plain(text: str) -> str:
    """The text on one line; none of its characters is Markdown."""
    return _one_line(text).translate(MARKS)


def code(text: str) -> str:
    """The text on one line as inline code, which it cannot end early."""
    return f"` {_one_line(text).replace('`', chr(39)) or 'nothing'} `"


def _one_line(text: str) -> str:
    return " ".join(text.split())

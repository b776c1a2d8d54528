"""Text of foreign origin (names, prompts, errors) made safe inside Markdown."""

MARKS = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>()#+-.!|~$:"})


def plain(text: str) -> str:
    """The text as it is; none of its characters is Markdown."""
    return text.translate(MARKS)


def code(text: str) -> str:
    """The text as inline code, which it cannot end early."""
    return f"`{text.replace('`', ' ')}`"

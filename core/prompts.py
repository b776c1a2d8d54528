"""Pasted text to prompts.

Three ways to write them, told apart by the text itself: prompts of several lines separated by a
line that holds only `---`; JSON Lines (the first line is an object) with a "prompt" and, if
wanted, a "label"; or else one prompt per line. A prompt's own spaces are kept; lines before and after it that are empty are not.
"""

import json
from collections.abc import Sequence
from typing import Any, cast

from core.errors import InvalidInput
from core.runs import Prompt

MOST_PROMPTS = 500
MOST_BYTES = 1_000_000
LONGEST_LABEL = 60
SEPARATOR = "---"
HOW_TO_WRITE = f'Write {{"prompt": "...", "label": "..."}} in each line, or separate prompts by lines of {SEPARATOR} to use them as they are.'


def parse(text: str) -> list[Prompt]:
    """The prompts in `text`. Raises InvalidInput, which names the line, when they cannot be used."""
    _check_size(len(text.encode(errors="surrogatepass")))
    lines = text.replace("\r\n", "\n").removeprefix("\ufeff").split("\n")
    if any(line.strip() == SEPARATOR for line in lines):
        prompts = _blocks(lines)
    elif _is_json_lines(lines):
        prompts = [_from_json(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    else:
        prompts = [Prompt(text=line) for line in lines if line.strip()]
    check(prompts)
    return prompts


def check(prompts: Sequence[Prompt]) -> None:
    """Raise InvalidInput unless there are between 1 and 500 prompts, none empty, of at most 1 MB together."""
    if not prompts:
        raise InvalidInput("There are no prompts. Paste at least one; eight or more give an interval for traffic like yours.")
    if len(prompts) > MOST_PROMPTS:
        raise InvalidInput(f"{len(prompts)} prompts are too many. Keep at most {MOST_PROMPTS}, a random sample of your traffic.")
    for number, prompt in enumerate(prompts, 1):
        if not prompt.text.strip():
            raise InvalidInput(f"Prompt {number} is empty. Write something or remove it.")
    _check_size(sum(len(prompt.text.encode(errors="surrogatepass")) for prompt in prompts))


def _check_size(size_bytes: int) -> None:
    if size_bytes > MOST_BYTES:
        raise InvalidInput(
            f"The prompts are {size_bytes / 1e6:.2f} MB together. Keep at most {MOST_BYTES / 1e6:.0f} MB, a random sample of your traffic."
        )


def _blocks(lines: Sequence[str]) -> list[Prompt]:
    """Prompts between separators; one empty block at the start or the end of the text is no prompt."""
    blocks: list[tuple[int, list[str]]] = [(1, [])]
    for number, line in enumerate(lines, 1):
        if line.strip() == SEPARATOR:
            blocks.append((number + 1, []))
        else:
            blocks[-1][1].append(line)
    if not _written(blocks[0]):
        del blocks[0]
    if blocks and not _written(blocks[-1]):
        del blocks[-1]
    return [_block(*block) for block in blocks]


def _written(block: tuple[int, list[str]]) -> bool:
    return any(line.strip() for line in block[1])


def _block(number: int, lines: Sequence[str]) -> Prompt:
    text = "\n".join(lines).strip("\n")
    if not text.strip():
        raise InvalidInput(f"The prompt that begins at line {number} is empty. Write something between the two {SEPARATOR} lines, or remove one.")
    return Prompt(text=text)


def _is_json_lines(lines: Sequence[str]) -> bool:
    """Whether the first line that is not empty is a JSON object; a later line that is none is then an error."""
    first = next((line for line in lines if line.strip()), "")
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def _from_json(number: int, line: str) -> Prompt:
    try:
        entry: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"Line {number} is not valid JSON ({error}). {HOW_TO_WRITE}") from error
    fields = cast(dict[str, Any], entry) if isinstance(entry, dict) else {}
    text, label = fields.get("prompt"), fields.get("label", "")
    if not isinstance(text, str):
        raise InvalidInput(f'Line {number} has no "prompt" that is text. {HOW_TO_WRITE}')
    if not text.strip():
        raise InvalidInput(f"The prompt in line {number} is empty. Write something or remove the line.")
    if not isinstance(label, str) or len(label) > LONGEST_LABEL:
        raise InvalidInput(f"The label in line {number} must be text of at most {LONGEST_LABEL} characters.")
    return Prompt(text=text, label=label)

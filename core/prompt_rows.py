"""Which of the prompts found are measured: duplicates and what does not fit are left out, each with its reason.

Nothing is cut: a prompt without its end is other traffic. Units: tokens. Not covered: counting them (the job `prompt_tokens`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from core.runs import Prompt


@dataclass(frozen=True)
class Row:
    """A prompt with what is known of it. number: from 1. tokens: None when not counted. usable: whether it may be included at all.

    include: what is done unless a person decides otherwise. reason: why it is left out, or what to know of it.
    """

    number: int
    prompt: Prompt
    tokens: int | None
    usable: bool
    include: bool
    reason: str


def judge(
    prompts: Sequence[Prompt],
    tokens: Sequence[int | None] | None,
    context: int | None,
    max_new_tokens: int,
    *,
    problems: Sequence[str] | None = None,
    chat_template: bool = False,
) -> tuple[Row, ...]:
    """One row per prompt.

    tokens: None while they are not counted; problems: why single ones could not be. context: the most tokens that both models can
    hold, prompt and answer together; None when it is not known, and then nothing is too long.
    """
    first: dict[tuple[object, ...], int] = {}
    rows: list[Row] = []
    for number, prompt in enumerate(prompts, 1):
        count = tokens[number - 1] if tokens is not None else None
        same_as = first.setdefault((prompt.text, prompt.messages), number)
        refusal = problems[number - 1] if problems is not None else ""
        if not refusal and count is not None:
            refusal = _too_long(count, context, max_new_tokens) or ("Left out: it has no tokens" if count == 0 else "")
        reason = refusal or (f"Same as {same_as}" if same_as < number else "") or _history(prompt, chat_template)
        rows.append(Row(number, prompt, count, not refusal, not refusal and same_as == number, reason))
    return tuple(rows)


def _too_long(count: int, context: int | None, max_new_tokens: int) -> str:
    if context is None or count + max_new_tokens <= context:
        return ""
    return f"Left out: with {max_new_tokens:,} new tokens it needs {count + max_new_tokens:,}, and the pair holds {context:,}"


def _history(prompt: Prompt, chat_template: bool) -> str:
    if chat_template or len(prompt.messages) < 2:
        return ""
    return "Its last turn alone; the turns before it need the chat template"

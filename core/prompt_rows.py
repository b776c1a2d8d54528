"""Which of the prompts found are measured: duplicates and what does not fit are left out, each with its reason.

Nothing is cut: a prompt without its end is other traffic. A decoder holds prompt and answer in one text; behind an encoder the prompt has
a text of its own, and the answer another. Units: tokens. Not covered: counting them (the job `prompt_tokens`), and what else a decoder begins with
than its first token, which the worker says.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.memory_cache import CacheProfile
from core.runs import Prompt


@dataclass(frozen=True)
class Room:
    """The longest texts, in tokens, that all models of a run hold; None where nobody says.

    text: prompt and answer together. prompt, answer: each alone, of encoder-decoders.
    """

    text: int | None = None
    prompt: int | None = None
    answer: int | None = None

    @classmethod
    def of(cls, sizes: Iterable[CacheProfile]) -> "Room":
        """The least of these models. A decoder behind an encoder begins with a token that is none of the answer."""
        found = list(sizes)
        return cls(
            text=min((size.context for size in found if size.context and not size.cross_bytes_per_source_token), default=None),
            prompt=min((size.source_context for size in found if size.source_context), default=None),
            answer=min((size.context - 1 for size in found if size.context and size.cross_bytes_per_source_token), default=None),
        )

    def lacks(self, prompt_tokens: int, new_tokens: int) -> str:
        """Why a prompt of so many tokens and its answer do not fit, in half a sentence; "" where they do."""
        if self.text is not None and prompt_tokens + new_tokens > self.text:
            return f"with {new_tokens:,} new tokens it needs {prompt_tokens + new_tokens:,}, and the pair holds {self.text:,}"
        if self.prompt is not None and prompt_tokens > self.prompt:
            return f"it has {prompt_tokens:,} tokens, and the pair's encoders read {self.prompt:,}"
        if self.answer is not None and new_tokens > self.answer:
            return f"{new_tokens:,} new tokens are asked for, and the pair's decoders hold {self.answer:,}"
        return ""


NO_LIMIT = Room()
"""Of models of which nothing is known yet."""


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
    room: Room,
    max_new_tokens: int,
    *,
    problems: Sequence[str] | None = None,
    chat_template: bool = False,
) -> tuple[Row, ...]:
    """One row per prompt.

    tokens: None while they are not counted; problems: why single ones could not be. room: of the pair; where it is not known nothing is too
    long.
    """
    first: dict[tuple[object, ...], int] = {}
    rows: list[Row] = []
    for number, prompt in enumerate(prompts, 1):
        count = tokens[number - 1] if tokens is not None else None
        same_as = first.setdefault((prompt.text, prompt.messages), number)
        refusal = problems[number - 1] if problems is not None else ""
        if not refusal and count is not None:
            lacks = room.lacks(count, max_new_tokens) or ("it has no tokens" if count == 0 else "")
            refusal = f"Left out: {lacks}" if lacks else ""
        reason = refusal or (f"Same as {same_as}" if same_as < number else "") or _history(prompt, chat_template)
        rows.append(Row(number, prompt, count, not refusal, not refusal and same_as == number, reason))
    return tuple(rows)


def _history(prompt: Prompt, chat_template: bool) -> str:
    if chat_template or len(prompt.messages) < 2:
        return ""
    return "Its last turn alone; the turns before it need the chat template"

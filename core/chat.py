"""What a model is given for a prompt: token ids, with or without its chat template. One place, so that counts, previews and
measurements agree.

The tokenizer is Transformers' own, handed in, so that this module needs no import of it. Without the template a prompt's `text`
is read with the tokenizer's own special tokens; with it, the conversation is written by the template, which ends where the
answer begins and brings its special tokens itself (`apply_chat_template`, Transformers 5.24). A template is a program of whoever made
the model: the library runs it in Jinja's sandbox, which keeps it from files and code and not from time and memory, so these are bounded
here, for the tokenizer too. Not covered: tools, documents, and templates chosen by name.
"""

from typing import Any

from core.bounded import GIB, OutOfBounds, bounded
from core.errors import InvalidInput
from core.runs import Prompt

MOST_MEMORY_BYTES = 2 * GIB
LONGEST_S = 10.0
LONGEST_CHARACTERS = 4_000_000
"""That a template may write; a prompt has a million bytes at most."""


def ids(tokenizer: Any, prompt: Prompt, chat_template: bool) -> list[int]:
    """The token ids that the model reads. Raises InvalidInput when the template or the tokenizer refuses the prompt, or there is no template."""
    text, how = (written(tokenizer, prompt), {"add_special_tokens": False}) if chat_template else (prompt.text, {})
    try:
        with bounded(MOST_MEMORY_BYTES, LONGEST_S):
            return list(tokenizer(text, **how)["input_ids"])
    except OutOfBounds as error:
        raise InvalidInput(f"The model's tokenizer {error} for this prompt. Shorten it, or choose another model.") from error


def written(tokenizer: Any, prompt: Prompt) -> str:
    """The conversation as the template writes it. Raises InvalidInput as `ids`."""
    if not tokenizer.chat_template:
        raise InvalidInput("This model has no chat template. Switch the chat template off.")
    messages = [turn.model_dump() for turn in prompt.messages] or [{"role": "user", "content": prompt.text}]
    try:
        with bounded(MOST_MEMORY_BYTES, LONGEST_S):
            text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            if len(text) > LONGEST_CHARACTERS:
                raise ValueError(f"it writes {len(text):,} characters")
            text.encode()
        return text
    except Exception as error:  # templates are programs of their authors, and may raise anything
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise InvalidInput(f"The model's chat template refuses this prompt ({reason}). Change it, or switch the chat template off.") from error

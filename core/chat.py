"""What a model is given for a prompt: token ids, with or without its chat template. One place, so that counts, previews and
measurements agree.

The tokenizer is Transformers' own, handed in, so that this module needs no import of it. Without the template a prompt's `text`
is read with the tokenizer's own special tokens; with it, the conversation is written by the template, which ends where the
answer begins and brings its special tokens itself (`apply_chat_template`, Transformers 5.24). Not covered: tools, documents,
and templates chosen by name.
"""

from typing import Any

from core.errors import InvalidInput
from core.runs import Prompt


def ids(tokenizer: Any, prompt: Prompt, chat_template: bool) -> list[int]:
    """The token ids that the model reads. Raises InvalidInput when the template refuses the conversation, or there is none."""
    if not chat_template:
        return list(tokenizer(prompt.text)["input_ids"])
    return list(tokenizer(written(tokenizer, prompt), add_special_tokens=False)["input_ids"])


def written(tokenizer: Any, prompt: Prompt) -> str:
    """The conversation as the template writes it. Raises InvalidInput as `ids`."""
    if not tokenizer.chat_template:
        raise InvalidInput("This model has no chat template. Switch the chat template off.")
    messages = [turn.model_dump() for turn in prompt.messages] or [{"role": "user", "content": prompt.text}]
    try:
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # templates are programs of their authors, and may raise anything
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise InvalidInput(f"The model's chat template refuses this prompt ({reason}). Change it, or switch the chat template off.") from error

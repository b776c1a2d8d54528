"""What a person did about prompts so far: the pasted text, the uploaded file, and changes in the table. Saved as one text on change.

Changes are kept by what a prompt says, so that they stay with it when others are added or removed around it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import Field, ValidationError

from core.errors import StoreError
from core.prompt_files import Choice
from core.prompt_rows import Row
from core.prompts import LONGEST_LABEL, Reading
from core.record import Record
from core.runs import Prompt

MARK = "draftgauge prompts 1\n"
INCLUDE, LABEL = "Include", "Label"
"""Columns of the table that can be changed."""


class Upload(Record):
    """An uploaded file: its name, its key in `core.prompt_files`, what was chosen about it, and its prompts once they are read."""

    name: str
    file: str
    choice: Choice = Choice()
    reading: Reading | None = None


class Draft(Record):
    """Everything a person did. included, labels: what was changed, by `keys`."""

    pasted: str = ""
    upload: Upload | None = None
    included: dict[str, bool] = Field(default={})
    labels: dict[str, str] = Field(default={})

    def saved(self) -> str:
        """The text to keep."""
        return MARK + self.model_dump_json()

    @classmethod
    def read(cls, text: str | None) -> Self:
        """The draft from its saved text; text that was saved by itself is what was pasted. Raises StoreError for a damaged draft."""
        if not text or not text.startswith(MARK):
            return cls(pasted=text or "")
        try:
            return cls.model_validate_json(text.removeprefix(MARK))
        except ValidationError as error:
            raise StoreError("The saved prompts are damaged, or of another version of Draftgauge. Begin with an empty list.") from error

    def changed(self, keys: Sequence[str], edits: Mapping[int, Mapping[str, Any]]) -> Self:
        """With changes from the table: values by column, by the row's place from 0."""
        included, labels = dict(self.included), dict(self.labels)
        for place, values in edits.items():
            if INCLUDE in values:
                included[keys[place]] = bool(values[INCLUDE])
            if LABEL in values:
                labels[keys[place]] = str(values[LABEL] or "").strip()[:LONGEST_LABEL]
        return self.model_copy(update={"included": included, "labels": labels})

    def is_included(self, key: str, row: Row) -> bool:
        """Whether a prompt is measured: as a person chose, if it can be at all."""
        return row.usable and self.included.get(key, row.include)

    def labelled(self, key: str, prompt: Prompt) -> Prompt:
        """The prompt with the label that a person gave it."""
        return prompt.model_copy(update={"label": self.labels[key]}) if key in self.labels else prompt


def keys(prompts: Sequence[Prompt]) -> list[str]:
    """A short name per prompt by what it says, counted where several say the same."""
    seen: dict[str, int] = {}
    found: list[str] = []
    for prompt in prompts:
        said = prompt.model_dump_json(exclude={"label"}).encode()
        name = hashlib.sha256(said).hexdigest()[:16]
        seen[name] = seen.get(name, 0) + 1
        found.append(f"{name}.{seen[name]}")
    return found

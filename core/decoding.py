"""How the service decodes, because acceptance and cost depend on it: greedy, or sampling with its processors.

The field's names and meanings are Transformers' own. Not covered: beams, penalties other than
repetition, and processors that a service adds by itself.
"""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field


class Decoding(BaseModel):
    """Greedy unless `sample`; then top_k 0 and top_p 1 mean "not used". The repetition penalty acts on greedy decoding too.

    warpers_once: temperature, top-k and top-p act once on the draft; by itself Transformers 5.24 applies them
    twice there. draft_temperature: the draft's own, None for the target's. Neither changes what the target's text
    is drawn from, both change how much of the draft is accepted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sample: bool = False
    temperature: float = Field(default=1.0, gt=0, le=10, allow_inf_nan=False)
    top_k: int = Field(default=0, ge=0, le=1_000_000)
    top_p: float = Field(default=1.0, gt=0, le=1, allow_inf_nan=False)
    repetition_penalty: float = Field(default=1.0, ge=0.1, le=10, allow_inf_nan=False)
    warpers_once: bool = False
    draft_temperature: float | None = Field(default=None, gt=0, le=10, allow_inf_nan=False)

    def for_target(self) -> Self:
        """The part that decides which text the target writes: equal for settings that differ in the draft alone."""
        return self.model_copy(update={"warpers_once": False, "draft_temperature": None})

    def words(self) -> str:
        """Short, for headers: "greedy", or "temperature 0.7, top-p 0.9"."""
        named = [("temperature", self.temperature, None), ("top-k", self.top_k, 0), ("top-p", self.top_p, 1.0)] if self.sample else []
        named.append(("repetition penalty", self.repetition_penalty, 1.0))
        parts = [f"{name} {value:g}" for name, value, off in named if value != off]
        parts = parts if self.sample else ["greedy", *parts]
        if self.sample and self.warpers_once:
            parts.append("warpers once on the draft")
        if self.sample and self.draft_temperature is not None:
            parts.append(f"draft temperature {self.draft_temperature:g}")
        return ", ".join(parts)

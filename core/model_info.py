"""`ModelInfo`: what is known of a model before its weights are downloaded.

Read in `core.plan` from a few kilobytes: config, tokenizer files, safetensors headers. Pages and
rules use this record and never the files. `refusal` is a sentence when the model cannot be a
target or a draft here at all; the rest may then be missing.
"""

from typing import Any, Literal

from pydantic import Field

from core.record import Record
from core.runs import ModelRef


class Weights(Record):
    """Weights as stored. `parameters` counts elements as the model has them (packed quantised tensors unpacked); None where unknown.

    origin: headers = from the files' own headers; sizes = file sizes only.
    """

    bytes: int
    parameters: int | None
    bytes_by_dtype: dict[str, int] = Field(default_factory=dict)
    quantisation: str = ""
    origin: Literal["headers", "sizes"] = "headers"


class ModelInfo(Record):
    """One model, read at `read_s` (seconds since 1970); `bytes_read` came over the network for it.

    vocabulary: key of the stored token map (`core.plan`), "" where there is none. cached: answered without the network.
    renamed_from: the name it was asked for by, where the Hub has another one now. ask_access: the page on which to ask for a gated model.
    """

    ref: ModelRef
    read_s: float
    bytes_read: int = 0
    cached: bool = False
    refusal: str = ""
    warnings: tuple[str, ...] = ()
    config: dict[str, Any] = Field(default_factory=dict)
    generation_config: dict[str, Any] = Field(default_factory=dict)
    weights: Weights | None = None
    vocabulary: str = ""
    vocabulary_problem: str = ""
    chat_template: str = ""
    licence: str = ""
    gated: bool = False
    downloads: int | None = None
    renamed_from: str = ""
    ask_access: str = ""


class Found(Record):
    """A model that a search found. updated: day of the last change. parameters: the Hub's own count of stored elements, which is too
    small for quantised models; None where it has none.
    """

    id: str
    downloads: int | None = None
    gated: bool = False
    updated: str = ""
    tags: tuple[str, ...] = ()
    parameters: int | None = None

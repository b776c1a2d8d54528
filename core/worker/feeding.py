"""How a model is given a prompt and reads on from there: a decoder alone, or a decoder behind an encoder.

A decoder's text begins with the prompt. In an encoder-decoder the encoder reads the prompt, once per call, and the decoder's text begins
with its start tokens alone. Target and draft each encode the prompt themselves: the library shares nothing between two such models,
so that their encoders may differ in every size.

Transformers 5.24 cuts the text that it hands to a draft by the length of the decoder's mask. Without one an encoder-decoder draft
gets the whole text again in each round after the first, behind what it has read of it already, and drafts from that mixture. The answer
stays right, because the target decides, but few drafts are accepted. So the mask is given wherever a draft takes part.

What models fix of their first tokens is kept: `forced_bos_token_id` (the language, in NLLB and mBART) is given as a second start token, and
single tokens that are forbidden altogether (Marian's padding) stay forbidden. Units: tokens. Source: `_prefill` and
`AssistedCandidateGenerator.__init__` of Transformers 5.24. Not covered: encoders of anything but text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, cast

import torch
from torch.nn.functional import pad
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel

from core.errors import ModelError
from core.worker.reader import EncodedReader, Reader

_RELATIVE = frozenset({"t5", "mt5", "umt5", "longt5"})
"""Model types whose decoders see distances between tokens only."""


class Feeding(Protocol):
    """How both models of a pair are fed.

    ids: the argument in which a pass of the decoder gets its tokens. encodes: whether an encoder reads the prompt.
    """

    ids: ClassVar[str]
    encodes: ClassVar[bool]

    def opening(self, prompt: torch.Tensor) -> torch.Tensor:
        """(1, tokens) what the decoder's text begins with after `prompt` (1, P), and the library's output with it."""
        ...

    def arguments(self, prompts: Sequence[torch.Tensor], *, drafts: bool = False) -> dict[str, torch.Tensor]:
        """`generate`'s arguments for these prompts (1, P), shorter ones padded; drafts: whether a draft model takes part."""
        ...

    def begin(self, model: PreTrainedModel, prompts: Sequence[torch.Tensor], *, whole: bool = False) -> Reader:
        """A reader that has not read anything of its text yet. whole: windows of attention are kept whole in its cache."""
        ...

    def amid(self, model: PreTrainedModel, text: torch.Tensor, cached: int, written: int) -> Reader:
        """A reader with `cached` tokens of `text` (1, L) in its caches, `written` or fewer of them the answer's; what follows can be undone."""
        ...

    def moves(self, model: PreTrainedModel) -> bool:
        """Whether a text in the cache can be moved, as in a batch of texts of unequal length."""
        ...

    def defaults(self) -> dict[str, Any]:
        """What the library must be told of the models' own first and forbidden tokens, as settings of a GenerationConfig."""
        ...

    def beside(self, draft: "Feeding") -> "Feeding":
        """The same for a pair, whose text must fit into both models."""
        ...

    def refusal(self, prompt_tokens: int, new_tokens: int) -> str:
        """Why a prompt of so many tokens cannot go on for so many, as the rest of a sentence about it; "" where it can."""
        ...


@dataclass(frozen=True)
class Causal:
    """A decoder alone. context: the longest text that both models can hold, None where nobody says."""

    ids: ClassVar[str] = "input_ids"
    encodes: ClassVar[bool] = False
    context: int | None = None

    def opening(self, prompt: torch.Tensor) -> torch.Tensor:
        """See `Feeding`."""
        return prompt

    def arguments(self, prompts: Sequence[torch.Tensor], *, drafts: bool = False) -> dict[str, torch.Tensor]:
        """Padded on the left with each prompt's own first token, which the mask hides and which tells a repetition penalty nothing new."""
        longest = max(prompt.shape[1] for prompt in prompts)
        ids = torch.cat([pad(prompt, (longest - prompt.shape[1], 0), value=int(prompt[0, 0])) for prompt in prompts])
        return {"input_ids": ids, "attention_mask": _inside(prompts).flip(1)}

    def begin(self, model: PreTrainedModel, prompts: Sequence[torch.Tensor], *, whole: bool = False) -> Reader:
        """See `Feeding`."""
        return Reader(model, DynamicCache() if whole else DynamicCache(config=model.config))

    def amid(self, model: PreTrainedModel, text: torch.Tensor, cached: int, written: int) -> Reader:
        """See `Feeding`."""
        return _read(self.begin(model, []), text[:, :cached])

    def moves(self, model: PreTrainedModel) -> bool:
        """Always: positions are given beside the text."""
        return True

    def defaults(self) -> dict[str, Any]:
        """None: nothing but the prompt comes first."""
        return {}

    def beside(self, draft: Feeding) -> Feeding:
        """See `Feeding`."""
        return replace(self, context=_least(self.context, cast("Causal", draft).context))

    def refusal(self, prompt_tokens: int, new_tokens: int) -> str:
        """See `Feeding`."""
        if self.context is None or prompt_tokens + new_tokens <= self.context:
            return ""
        return (
            f"has {prompt_tokens:,} tokens; with {new_tokens:,} new ones that is more than the {self.context:,} this pair can hold. "
            "Shorten it, or ask for fewer new tokens."
        )


CAUSAL = Causal()


@dataclass(frozen=True)
class EncoderDecoder:
    """A decoder behind an encoder.

    start: the tokens with which every answer's text begins. reads, writes: the longest prompt that both encoders, and the longest text that
    both decoders can hold; None where nobody says (T5). forbidden: tokens that are never written.
    """

    ids: ClassVar[str] = "decoder_input_ids"
    encodes: ClassVar[bool] = True
    start: tuple[int, ...]
    reads: int | None = None
    writes: int | None = None
    forbidden: tuple[int, ...] = ()

    def opening(self, prompt: torch.Tensor) -> torch.Tensor:
        """See `Feeding`."""
        return prompt.new_tensor([self.start])

    def arguments(self, prompts: Sequence[torch.Tensor], *, drafts: bool = False) -> dict[str, torch.Tensor]:
        """Padded on the right, where encoders with positions of their own expect it."""
        start = self.opening(prompts[0]).expand(len(prompts), -1)
        given = {"input_ids": _right_padded(prompts), "attention_mask": _inside(prompts), "decoder_input_ids": start}
        return given | {"decoder_attention_mask": torch.ones_like(start)} if drafts else given

    def begin(self, model: PreTrainedModel, prompts: Sequence[torch.Tensor], *, whole: bool = False) -> Reader:
        """See `Feeding`. The model's encoder reads the prompts."""
        prompts = [prompt.to(model.device) for prompt in prompts]
        mask = _inside(prompts)
        encode = cast("torch.nn.Module", model.get_encoder())
        source = encode(input_ids=_right_padded(prompts), attention_mask=mask, return_dict=True).last_hidden_state
        caches = [DynamicCache() if whole else DynamicCache(config=model.config) for _ in range(2)]
        return EncodedReader(model, EncoderDecoderCache(*caches), source, mask)

    def amid(self, model: PreTrainedModel, text: torch.Tensor, cached: int, written: int) -> Reader:
        """The rest of `cached` is the prompt that the encoder has read: a pass looks at the keys of both."""
        written = max(1, min(written, cached - 1))
        prompt, answer = text[:, : max(1, cached - written)], text[:, cached - written :]
        own = torch.cat([self.opening(text), answer], dim=1)[:, :written]
        return _read(self.begin(model, [prompt[:, : self.reads]]), own)

    def moves(self, model: PreTrainedModel) -> bool:
        """Only where positions are relative: the others count theirs by the cache's length, and cannot be told otherwise."""
        return model.config.model_type in _RELATIVE

    def defaults(self) -> dict[str, Any]:
        """See `Feeding`."""
        return {"decoder_start_token_id": self.start[0], "bad_words_ids": [[token] for token in self.forbidden] or None}

    def beside(self, draft: Feeding) -> Feeding:
        """See `Feeding`. The draft begins as its target does, whatever its own configuration says."""
        other = cast("EncoderDecoder", draft)
        return replace(self, reads=_least(self.reads, other.reads), writes=_least(self.writes, other.writes))

    def refusal(self, prompt_tokens: int, new_tokens: int) -> str:
        """See `Feeding`."""
        if self.reads is not None and prompt_tokens > self.reads:
            return f"has {prompt_tokens:,} tokens, more than the {self.reads:,} that the encoders of this pair can read. Shorten it."
        most = None if self.writes is None else self.writes - len(self.start)
        if most is not None and new_tokens > most:
            return f"cannot be answered with {new_tokens:,} new tokens: the decoders of this pair hold {most:,}. Ask for fewer new tokens."
        return ""


def feeding_of(model: PreTrainedModel, name: str) -> Feeding:
    """How a model is fed, by its own configuration. Raises ModelError, naming it, where it does not say what its decoder begins with."""
    config, own = cast("Any", model.config), model.generation_config
    text = config.get_text_config(decoder=True)
    if not config.is_encoder_decoder:
        return Causal(getattr(text, "max_position_embeddings", None))
    first = getattr(own, "decoder_start_token_id", None)
    first = getattr(own, "bos_token_id", None) if first is None else first
    if not isinstance(first, int):
        raise ModelError(f"The configuration of {name} names no decoder_start_token_id, so its decoder has nothing to begin with. Add it.")
    forced, words = getattr(own, "forced_bos_token_id", None), getattr(own, "bad_words_ids", None) or []
    return EncoderDecoder(
        start=(first,) if forced is None else (first, int(forced)),
        reads=_positions(config.get_text_config(encoder=True), "encoder"),
        writes=_positions(text, "decoder"),
        forbidden=tuple(int(word[0]) for word in words if len(word) == 1),
    )


def _positions(part: Any, role: str) -> int | None:
    """LED names its two limits apart."""
    return getattr(part, f"max_{role}_position_embeddings", None) or getattr(part, "max_position_embeddings", None)


def _least(one: int | None, other: int | None) -> int | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)


def _inside(prompts: Sequence[torch.Tensor]) -> torch.Tensor:
    """(B, P) 1 where a prompt padded on the right has a token of its own."""
    lengths = torch.tensor([prompt.shape[1] for prompt in prompts], device=prompts[0].device)
    return (torch.arange(int(lengths.max()), device=lengths.device)[None] < lengths[:, None]).long()


def _right_padded(prompts: Sequence[torch.Tensor]) -> torch.Tensor:
    """(B, P) with each prompt's own last token behind it."""
    longest = max(prompt.shape[1] for prompt in prompts)
    return torch.cat([pad(prompt, (0, longest - prompt.shape[1]), value=int(prompt[0, -1])) for prompt in prompts])


def _read(reader: Reader, ids: torch.Tensor) -> Reader:
    """The reader behind `ids`, so that what it reads from now on can be undone."""
    reader.cache.activate_past_recording()
    reader.read(ids, kept=1)
    reader.undo(0)
    return reader

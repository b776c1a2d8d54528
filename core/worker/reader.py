"""A model amid texts: what it has read of them is in its cache, and it reads on, goes back, or takes other rows of the batch.

With an encoder behind it or not, so that whoever times passes or follows a draft need not know. Units: tokens. Source: the caches of
Transformers 5.24. Not covered: caches other than dynamic ones.
"""

from typing import cast

import torch
from torch.nn.functional import pad
from transformers import Cache, DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import BaseModelOutput


class Reader:
    """A decoder amid B texts: what it has read of them is in its cache."""

    def __init__(self, model: PreTrainedModel, cache: Cache) -> None:
        self.model = model
        self.cache = cache

    def read(
        self, ids: torch.Tensor, *, mask: torch.Tensor | None = None, positions: torch.Tensor | None = None, kept: int | None = None
    ) -> torch.Tensor:
        """Read `ids` (B, width) behind what was read, and give the scores behind the last `kept` of them, (B, kept, V); of all for None.

        mask: (B, what was read + width), all ones for None. positions: (B, width) where a text was moved in the cache.
        """
        if mask is None:
            mask = ids.new_ones((len(ids), self.cache.get_seq_length() + ids.shape[1]))
        return self._scores(ids, mask, positions, kept or ids.shape[1])

    @property
    def layers(self) -> list[object]:
        """The cache's layers."""
        return list(self.cache.layers)

    def undo(self, tokens: int) -> None:
        """Forget the last `tokens` tokens."""
        self.cache.crop(-tokens)

    def rows(self, of: torch.Tensor, lengths: torch.Tensor) -> "Reader":
        """Another batch of (M,) texts: its row b has read the first `lengths[b]` tokens of text `of[b]`, moved to the right edge."""
        return Reader(self.model, _moved(cast("DynamicCache", self.cache), of, lengths))

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with these texts, (M,) places; one may come several times."""
        cast("DynamicCache", self.cache).batch_select_indices(rows)

    def _scores(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor | None, kept: int) -> torch.Tensor:
        at = {} if positions is None else {"position_ids": positions}
        output = self.model(input_ids=ids, attention_mask=mask, cache=self.cache, use_cache=True, logits_to_keep=kept, **at)
        return output.logits[:, -kept:]


class EncodedReader(Reader):
    """The same behind an encoder. source: what it made of the B prompts, (B, P, width); source_mask: (B, P), 0 for padding."""

    def __init__(self, model: PreTrainedModel, cache: EncoderDecoderCache, source: torch.Tensor, source_mask: torch.Tensor) -> None:
        super().__init__(model, cache)
        self._source = source
        self._source_mask = source_mask

    def rows(self, of: torch.Tensor, lengths: torch.Tensor) -> "EncodedReader":
        """See `Reader`. Once its keys are cached, nothing but the shape of `source` is read, so that its values need not be copied."""
        both = cast("EncoderDecoderCache", self.cache)
        own, cross = cast("DynamicCache", both.self_attention_cache), cast("DynamicCache", both.cross_attention_cache)
        cache = EncoderDecoderCache(_moved(own, of, lengths), _moved(cross, of, torch.full_like(lengths, self._source.shape[1])))
        return EncodedReader(self.model, cache, self._source[:1].expand(len(of), -1, -1), self._source_mask[of])

    @property
    def layers(self) -> list[object]:
        """Those of the decoder's own text, then those of the prompt."""
        both = cast("EncoderDecoderCache", self.cache)
        return [*both.self_attention_cache.layers, *both.cross_attention_cache.layers]

    def keep(self, rows: torch.Tensor) -> None:
        """See `Reader`."""
        cast("EncoderDecoderCache", self.cache).batch_select_indices(rows)
        self._source, self._source_mask = self._source[rows], self._source_mask[rows]

    def _scores(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor | None, kept: int) -> torch.Tensor:
        """Decoders behind an encoder count their positions themselves, so none can be given (see `EncoderDecoder.moves`)."""
        output = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=self._source),  # pyright: ignore[reportArgumentType]
            attention_mask=self._source_mask,
            decoder_input_ids=ids,
            decoder_attention_mask=mask,
            cache=self.cache,
            use_cache=True,
        )
        return output.logits[:, -kept:]


def _moved(cache: DynamicCache, of: torch.Tensor, lengths: torch.Tensor) -> DynamicCache:
    """A cache whose row b holds the first `lengths[b]` positions of text `of[b]`, moved to the right edge."""
    widest, rows = int(lengths.max()), list(zip(of.tolist(), lengths.tolist(), strict=True))
    moved = DynamicCache()
    for index, layer in enumerate(cast("list[DynamicLayer]", cache.layers)):
        assert layer.keys is not None
        assert layer.values is not None
        keys, values = (
            torch.cat([pad(states[at : at + 1, :, :length], (0, 0, widest - length, 0)) for at, length in rows])
            for states in (layer.keys, layer.values)
        )
        moved.update(keys, values, index)
    return moved

"""What a target and its draft take of a GPU's memory, and what remains for requests.

Units: bytes everywhere; pages show GB (1e9) for weights and GiB (2^30) for cache. A `CacheProfile` is
read off a model that `core.plan.cache_profile` really builds, without weights; nothing here is
derived from raw configuration values, because every estimator that does so was wrong somewhere.
"""

from dataclasses import dataclass
from typing import Literal

LayerKind = Literal["full", "sliding", "latent", "linear", "recurrent", "shared", "cross"]


@dataclass(frozen=True)
class LayerCache:
    """What one decoder layer keeps of a sequence. Widths are per KV head; all bytes in bf16.

    shared: the layer reads another layer's keys and values and keeps none. window is None without one.
    state_bytes: fixed size per sequence, whatever its length.
    """

    kind: LayerKind
    kv_heads: int = 0
    key_width: int = 0
    value_width: int = 0
    window: int | None = None
    bytes_per_token: int = 0
    state_bytes: int = 0


@dataclass(frozen=True)
class CacheProfile:
    """Sizes of one architecture. `parameters` counts tied weights once; `active_parameters` are those that one token passes
    through (fewer in a mixture of experts); `embedding_parameters` are looked up, not multiplied, unless tied to the head.
    """

    model_type: str
    architecture: str
    parameters: int
    active_parameters: int
    embedding_parameters: int
    vocab_size: int
    hidden_size: int
    context: int | None
    per_layer: tuple[LayerCache, ...]
    cross_bytes_per_source_token: int = 0
    notes: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return len(self.per_layer)

    @property
    def bytes_per_token(self) -> int:
        """bf16 bytes that one more token adds while the text is shorter than every window."""
        return sum(layer.bytes_per_token for layer in self.per_layer)

    @property
    def fixed_bytes_per_sequence(self) -> int:
        """Bytes of running states, whatever the length."""
        return sum(layer.state_bytes for layer in self.per_layer)

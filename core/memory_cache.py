"""What an architecture keeps of a sequence, and how many bytes that is.

Units: bytes everywhere; pages show GB (1e9) for weights and GiB (2^30) for cache. A `CacheProfile` is
read off a model that `core.plan.cache_profile` really builds, without weights; nothing here is
derived from raw configuration values, because every estimator that does so was wrong somewhere.
Not covered: activations while a prompt is read, and fragmentation.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, Self, get_args

from core.errors import InvalidInput

LayerKind = Literal["full", "sliding", "latent", "linear", "recurrent", "shared", "cross", "none"]
Engine = Literal["transformers", "vLLM", "SGLang", "llama.cpp"]
ENGINES: tuple[Engine, ...] = get_args(Engine)

LARGEST = 10**12
"""Tokens, sequences and gigabytes beyond this are typing errors."""

_RATES = {
    "float32": Fraction(2),
    "bfloat16": Fraction(1),
    "float16": Fraction(1),
    "fp8": Fraction(1, 2),
    "int8": Fraction(34, 64),
    "int4": Fraction(18, 64),
}
_SPELLINGS = {
    "fp32": "float32", "f32": "float32", "float": "float32",
    "bf16": "bfloat16", "auto": "bfloat16",
    "fp16": "float16", "f16": "float16", "half": "float16",
    "float8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "e4m3": "fp8", "e5m2": "fp8",
    "q8_0": "int8", "q8": "int8",
    "q4_0": "int4", "q4": "int4",
}  # fmt: skip
KV_DTYPES = tuple(_RATES)


@dataclass(frozen=True)
class LayerCache:
    """What one decoder layer keeps of a sequence. Widths are per KV head; all bytes in bf16.

    shared: the layer reads another layer's keys and values and keeps none; none: it has no attention. window is None without one.
    state_bytes: fixed size per sequence, whatever its length. cross_bytes_per_source_token: keys and values of the encoder's
    output. engine_bytes_per_token: what vLLM, SGLang and llama.cpp keep where that differs from Transformers, else None.
    """

    kind: LayerKind
    kv_heads: int = 0
    key_width: int = 0
    value_width: int = 0
    window: int | None = None
    bytes_per_token: int = 0
    state_bytes: int = 0
    cross_bytes_per_source_token: int = 0
    engine_bytes_per_token: int | None = None

    def token_bytes(self, engine: Engine) -> int:
        """bf16 bytes that one more token adds below the window, as `engine` keeps it."""
        elsewhere = self.engine_bytes_per_token
        return self.bytes_per_token if engine == "transformers" or elsewhere is None else elsewhere


@dataclass(frozen=True)
class CacheProfile:
    """Sizes of one architecture. `parameters` counts tied weights once; `active_parameters` are those that one token passes
    through (fewer in a mixture of experts); `embedding_parameters` are looked up, not multiplied, unless tied to the head.
    context: the longest text of the decoder; source_context: the longest input of an encoder before it; both None where nobody says.
    `notes`: sentences for the reader, where engines or library versions differ.
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
    notes: tuple[str, ...] = ()
    source_context: int | None = None

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return len(self.per_layer)

    @property
    def bytes_per_token(self) -> int:
        """bf16 bytes that one more token adds in Transformers while the text is shorter than every window."""
        return sum(layer.bytes_per_token for layer in self.per_layer)

    @property
    def engine_bytes_per_token(self) -> int:
        """The same in vLLM, SGLang and llama.cpp; equal to `bytes_per_token` for nearly every architecture."""
        return sum(layer.token_bytes("vLLM") for layer in self.per_layer)

    @property
    def fixed_bytes_per_sequence(self) -> int:
        """Bytes of running states, whatever the length."""
        return sum(layer.state_bytes for layer in self.per_layer)

    @property
    def cross_bytes_per_source_token(self) -> int:
        """bf16 bytes that one more token of an encoder's input adds."""
        return sum(layer.cross_bytes_per_source_token for layer in self.per_layer)

    def to_json(self) -> dict[str, Any]:
        """As plain data, for `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The profile that `to_json` wrote. Raises InvalidInput for anything else."""
        try:
            made: dict[str, Any] = dict(data)
            made["per_layer"] = tuple(LayerCache(**layer) for layer in data["per_layer"])
            made["notes"] = tuple(data["notes"])
            return cls(**made)
        except (KeyError, TypeError) as error:
            raise InvalidInput(f"A stored cache profile cannot be read ({error}). Delete it; it is computed again.") from error


class CacheSize(NamedTuple):
    """Bytes of keys and values. minimum: layers with a window keep no more than it; reserved: every layer keeps every token.

    Equal when no window is shorter than the text. Running states come on top (`fixed_bytes_per_sequence`).
    """

    minimum: int
    reserved: int


def whole(name: str, value: object, least: int, most: int = LARGEST) -> int:
    """`value` as a whole number from `least` to `most`. Raises InvalidInput with the name and the value otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"{name} is {value!r}; it must be a whole number from {least:,} to {most:,}.")
    return value


def kv_rate(dtype: str) -> Fraction:
    """Bytes of one cached value in `dtype` / bytes of one in bf16. Raises InvalidInput for an unknown dtype.

    fp8: one byte; vLLM keeps one scale per tensor, which is nothing. int8 and int4: llama.cpp's q8_0 and q4_0, blocks of 32
    values in 34 and 18 bytes (ggml-common.h: 32 or 16 bytes of values and one fp16 scale).
    """
    name = str(dtype).lower().removeprefix("torch.")
    try:
        return _RATES[_SPELLINGS.get(name, name)]
    except KeyError as error:
        raise InvalidInput(f"The cache dtype {dtype!r} is not known. Use one of {', '.join(KV_DTYPES)}.") from error


def kv_cache_bytes(profile: CacheProfile, tokens: int, *, sequences: int = 1, dtype: str = "bfloat16", engine: Engine = "transformers") -> CacheSize:
    """Keys and values of `sequences` texts of `tokens` tokens each, running states and encoder outputs left out.

    dtype: that of the cache, whatever the weights have (`kv_rate` names the engines' overheads). A window keeps `window` tokens
    (Transformers drops one of them between steps). Raises InvalidInput for negative numbers, fractions and unknown dtypes.
    """
    length, count, rate = whole("tokens", tokens, 0), whole("sequences", sequences, 0), kv_rate(dtype)
    capped = sum(layer.token_bytes(engine) * min(length, layer.window or length) for layer in profile.per_layer)
    full = sum(layer.token_bytes(engine) * length for layer in profile.per_layer)
    return CacheSize(_up(capped * count * rate), _up(full * count * rate))


def formula_kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, bytes: int = 2) -> int:
    """2 x layers x KV heads x head width x bytes: the textbook formula, for explanations. Right only where all layers are alike.

    Raises InvalidInput for negative numbers and fractions.
    """
    return 2 * whole("layers", layers, 0) * whole("kv_heads", kv_heads, 0) * whole("head_dim", head_dim, 0) * whole("bytes", bytes, 0)


def _up(bytes_: Fraction) -> int:
    return -(-bytes_.numerator // bytes_.denominator)

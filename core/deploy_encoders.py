"""What engines other than Transformers do with encoder-decoders: none checks the drafts of a draft model for them.

Read in copies of their documentation and sources on the day `SEEN`; none was run. Not covered: speech (Whisper) and pictures.
"""

from typing import NamedTuple

SEEN = "2026-11-30"


class Without(NamedTuple):
    """An engine that has no draft model for an encoder-decoder: what it does instead, in a sentence or two, and where that is said."""

    engine: str
    sentence: str
    source: str


ENGINES = (
    Without(
        "vLLM",
        "It has no encoder-decoders of text of its own: plugins bring some (BART), and none brings a draft model for them.",
        "https://docs.vllm.ai/en/latest/usage/v1_guide/",
    ),
    Without(
        "SGLang",
        "Its lists of models name no encoder-decoder of text.",
        "https://github.com/sgl-project/sglang/tree/main/docs/supported_models/text_generation",
    ),
    Without(
        "llama.cpp",
        "Its command-line tool runs T5. Its server, which has the draft models, does not; the open pull request that would add it leaves them out.",
        "https://github.com/ggml-org/llama.cpp/pull/17956",
    ),
    Without(
        "TGI",
        "It serves T5 token by token: its n-grams and Medusa heads are for decoders alone.",
        "https://github.com/huggingface/text-generation-inference/blob/main/server/text_generation_server/models/seq2seq_lm.py",
    ),
)

"""How each engine is started with a draft, as one line for a shell; names are quoted, whatever they hold.

The names of the flags were read in each engine's documentation or source (`core.engines`, `core.deploy`). Units: tokens.
"""

import json
import shlex
from typing import Any


def vllm(target: str, config: dict[str, Any], *more: str) -> str:
    """`config` goes to --speculative-config; empty for none."""
    speculative = ("--speculative-config", json.dumps(config)) if config else ()
    return shlex.join(["vllm", "serve", target, *more, *speculative])


def vllm_draft(draft: str, gamma: int, **more: Any) -> dict[str, Any]:
    """The configuration of a draft model that always proposes `gamma` tokens."""
    return {"method": "draft_model", "model": draft, "num_speculative_tokens": gamma, **more}


def sglang(target: str, *more: str) -> str:
    """`more` are further flags, such as those of `sglang_draft`."""
    return shlex.join(["python", "-m", "sglang.launch_server", "--model-path", target, *more])


def sglang_draft(draft: str, gamma: int) -> tuple[str, ...]:
    """A draft model that proposes one chain of `gamma` tokens, no tree; the check is then gamma + 1 tokens wide."""
    return (
        *("--speculative-algorithm", "STANDALONE", "--speculative-draft-model-path", draft, "--speculative-num-steps", str(gamma)),
        *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", str(gamma + 1)),
    )


def llama_cpp(target: str, *more: str) -> str:
    """`target` is a GGUF file; `more` are further flags, such as those of `llama_cpp_draft`."""
    return shlex.join(["llama-server", "-m", target, *more])


def llama_cpp_draft(draft: str, gamma: int) -> tuple[str, ...]:
    """A draft model, a GGUF file, that proposes up to `gamma` tokens."""
    return ("-md", draft, "--spec-type", "draft-simple", "--spec-draft-n-max", str(gamma))


def tgi(target: str, *more: str) -> str:
    """Hugging Face's Text Generation Inference."""
    return shlex.join(["text-generation-launcher", "--model-id", target, *more])

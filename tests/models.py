"""A tiny target and draft with a byte-level tokenizer, made in a second: real architecture, random weights.

The draft is the target with noise on its weights, so it agrees with the target at some positions
and not at others, with high and low confidence, as a trained draft does.
"""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from core.runs import ModelRef, Prompt, RunSpec

VOCABULARY = 384
CONTEXT = 256
TEXTS = (
    "def mean(values):\n    return sum(values) / len(values)\n",
    "The draft proposes a few tokens, and the target checks them all in one pass.",
    "for name in sorted(names):\n    print(name, len(name))\n",
    "Größe, naïve, 日本語: characters that take more than one byte.",
)


def write_pair(folder: Path, noise: float = 0.02) -> tuple[ModelRef, ModelRef]:
    """Save a target of three layers and its draft below `folder`."""
    tokenizer = tokenizer_of([*TEXTS, Path(__file__).read_text()])
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.25,
        eos_token_id=0,
        bos_token_id=None,
        pad_token_id=0,
        tie_word_embeddings=False,
    )
    target = LlamaForCausalLM(config)
    with torch.no_grad():
        target.lm_head.weight.mul_(2.0)  # some choices sure, some not
    draft = LlamaForCausalLM(config)
    draft.load_state_dict(target.state_dict())
    with torch.no_grad():
        for weight in draft.parameters():
            weight.add_(torch.randn_like(weight) * weight.std() * noise if weight.ndim == 2 else 0.0)
    for name, model in (("target", target), ("draft", draft)):
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    target_ref, draft_ref = (ModelRef(source="folder", name=name, path=str(folder / name)) for name in ("target", "draft"))
    return target_ref, draft_ref


def spec_of(refs: tuple[ModelRef, ModelRef], prompts: int = 2, max_new_tokens: int = 24) -> RunSpec:
    """A run of the first few texts on this pair."""
    chosen = tuple(Prompt(text=text, label=f"kind {index % 2}") for index, text in enumerate(TEXTS[:prompts]))
    return RunSpec(target=refs[0], draft=refs[1], prompts=chosen, max_new_tokens=max_new_tokens)


def make_forgetful(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the test ends the model sees only its last token, so that its answers soon go round in circles."""
    for name, weight in model.named_parameters():
        if name.endswith("o_proj.weight"):
            monkeypatch.setattr(weight, "data", torch.zeros_like(weight))


def tokenizer_of(texts: list[str], end: str = "<|endoftext|>") -> PreTrainedTokenizerFast:
    """Byte-level BPE trained on these texts; the end of text is id 0."""
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[end], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    plain.train_from_iterator(texts, trainer)
    assert plain.get_vocab_size() == VOCABULARY
    return PreTrainedTokenizerFast(tokenizer_object=plain, eos_token=end, pad_token=end)

"""Tiny encoder-decoder pairs with a tokenizer of their own, as in `tests.models`: real architectures, random weights.

The draft is the target with noise on its weights, or one of another width that was never near it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from core.runs import ModelRef, Prompt, RunSpec
from tests.models import TEXTS

VOCABULARY = 300
PAD, EOS = 0, 1
POSITIONS = 64


def t5(width: int = 32, layers: int = 2, **more: Any) -> PreTrainedModel:
    """A T5 with ids and start as the published ones have them; it looks sharply at what it reads, so that its answers do not stand still."""
    sizes: dict[str, Any] = {"d_model": width, "d_kv": 8, "d_ff": 2 * width, "num_layers": layers, "num_heads": 4, "dropout_rate": 0.0}
    config = T5Config(initializer_factor=2.0, **{"vocab_size": VOCABULARY, "decoder_start_token_id": PAD, **sizes, **more})
    model = T5ForConditionalGeneration(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.mul_(3.0 if "relative" in name or "ttention" in name else 0.5 if "shared" in name else 1.0)
    return model


def _bart(kind: Callable[[Any], PreTrainedModel], config: Callable[..., Any], **more: Any) -> PreTrainedModel:
    how = {"vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
    sizes = {"decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": POSITIONS, "init_std": 0.3}
    return kind(config(**how, **sizes, pad_token_id=PAD, eos_token_id=EOS, dropout=0.0, **more))


def bart() -> PreTrainedModel:
    """A BART: positions of its own, a first token that is forced, and an end of text with which its decoder begins."""
    return _told(_bart(BartForConditionalGeneration, BartConfig, bos_token_id=2, decoder_start_token_id=EOS), forced_bos_token_id=2)


def marian() -> PreTrainedModel:
    """A Marian: its decoder begins with padding, which it must never write."""
    return _told(_bart(MarianMTModel, MarianConfig, bos_token_id=None, decoder_start_token_id=PAD), bad_words_ids=[[PAD]])


def _told(model: PreTrainedModel, **defaults: Any) -> PreTrainedModel:
    """The model with these settings in its generation config, beside an end that is forced and so must be put aside."""
    assert model.generation_config is not None
    model.generation_config.update(forced_eos_token_id=EOS, **defaults)
    return model


def write_pair(folder: Path, make: Callable[[], PreTrainedModel] = t5, noise: float = 0.05, seed: int = 0) -> tuple[ModelRef, ModelRef]:
    """Save a target made by `make` and its draft, the same with noise, below `folder`."""
    torch.manual_seed(seed)
    target, draft = make().eval(), make().eval()
    draft.load_state_dict(target.state_dict())
    with torch.no_grad():
        for weight in draft.parameters():
            weight.add_(torch.randn_like(weight) * weight.std() * noise if weight.ndim == 2 else 0.0)
    return save(folder / "target", target), save(folder / "draft", draft)


def save(folder: Path, model: PreTrainedModel) -> ModelRef:
    """The model with its tokenizer in a folder."""
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return ModelRef(source="folder", name=folder.name, path=str(folder))


def tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE whose texts end with the end of text, as T5's do for the encoder."""
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<pad>", "</s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    plain.train_from_iterator(TEXTS, trainer)
    plain.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", EOS)])
    return PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="</s>", pad_token="<pad>")


def spec_of(refs: tuple[ModelRef, ModelRef], prompts: int = 3, max_new_tokens: int = 24, **more: Any) -> RunSpec:
    """A run of the first few texts on this pair."""
    chosen = tuple(Prompt(text=text, label=f"kind {index % 2}") for index, text in enumerate(TEXTS[:prompts]))
    return RunSpec(target=refs[0], draft=refs[1], prompts=chosen, max_new_tokens=max_new_tokens, **more)

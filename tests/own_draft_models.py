"""Tiny targets that draft with their own states, random weights and all: one that ships a head for multi-token prediction, a DFlash head."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import MellumConfig, MellumForCausalLM, MuseGlimmerAssistantConfig, MuseGlimmerAssistantModel
from transformers.modeling_layers import MtpModel

from core.runs import ModelRef
from tests import models
from tests.models import CONTEXT, TEXTS, VOCABULARY, tokenizer_of

WIDTH = 64


def write_mtp(folder: Path, *, heads: bool = True) -> ModelRef:
    """A Mellum of two dense layers with one head behind them, whose weights are in its file if `heads`."""
    torch.manual_seed(0)
    config = MellumConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=CONTEXT,
        initializer_range=0.25,
        eos_token_id=0,
        pad_token_id=0,
        mlp_layer_types=["dense", "dense"],
        num_mtp_layers=1,
        mtp_layer_types=["full_attention"],
        mtp_mlp_layer_types=["dense"],
    )
    target = MellumForCausalLM(config)
    target.save_pretrained(folder)
    if heads:
        own = MtpModel(target, 1).state_dict()
        file = folder / "model.safetensors"
        kept = {f"mtp.{name}": weight.clone() for name, weight in own.items() if name.startswith("layers.")}
        save_file(load_file(file) | kept, file, metadata={"format": "pt"})
    write_tokenizer(folder)
    return ModelRef(source="folder", name=folder.name, path=str(folder))


def write_dflash(folder: Path, *, width: int = WIDTH, deepest: int = 2, block: int = 4) -> ModelRef:
    """A head that reads the states after the first layer and after layer `deepest`, from 0 on, and drafts block - 1 tokens at once."""
    torch.manual_seed(1)
    config = MuseGlimmerAssistantConfig(
        hidden_size=width,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=CONTEXT,
        block_size=block,
        mask_token_id=5,
        target_layer_ids=[0, deepest],
        eos_token_id=0,
        pad_token_id=0,
        bos_token_id=None,
    )
    MuseGlimmerAssistantModel(config).save_pretrained(folder)
    return ModelRef(source="folder", name=folder.name, path=str(folder))


def write_tokenizer(folder: Path) -> None:
    """The one of `tests.models`."""
    tokenizer_of([*TEXTS, Path(models.__file__).read_text()]).save_pretrained(folder)

"""The demo pair's text: CPython's standard library source (PSF licence), its split and its tokenizer.

Held-out rule: a file is kept out of training when sha256 of its path, relative to the
library folder, is divisible by 40. Prompts are cut from held-out files only.
"""

import hashlib
import sysconfig
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

EOS = "<|endoftext|>"
VOCABULARY = 4096
LONGEST_FILE_BYTES = 200_000
# Tables and test fixtures: data, not text that a person would complete.
SKIPPED = {"site-packages", "lib2to3", "pydoc_data", "encodings", "idlelib", "turtledemo", "__pycache__", "data", "cjkencodings"}


def files() -> list[Path]:
    """Every library source file that is used, in a fixed order."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found = (p for p in sorted(root.rglob("*.py")) if not SKIPPED & set(p.relative_to(root).parts))
    return [p for p in found if 200 < p.stat().st_size < LONGEST_FILE_BYTES and _is_utf8(p)]


def relative(path: Path) -> str:
    """The path below the library folder, the same on every machine."""
    return path.relative_to(sysconfig.get_paths()["stdlib"]).as_posix()


def is_held_out(path: Path) -> bool:
    """True for the files that no model sees in training."""
    return int(hashlib.sha256(relative(path).encode()).hexdigest(), 16) % 40 == 0


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of 4,096 tokens; every text can be encoded and comes back unchanged."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[EOS], initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=EOS, pad_token=EOS, clean_up_tokenization_spaces=False)


def encode(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> np.ndarray:
    """All texts as one int32 array, each closed by the end-of-text token."""
    rows = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return np.concatenate([np.array([*row, tokenizer.eos_token_id], dtype=np.int32) for row in rows])


def _is_utf8(path: Path) -> bool:
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True

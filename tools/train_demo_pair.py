"""Train the embedded demo pair from CPython's own source; seeded, resumable, with progress.

    torchrun --nproc-per-node 2 tools/train_demo_pair.py --work build/demo_pair

Stages, each kept in the work folder and skipped when done: corpus and tokenizer; a base of
8 layers; the target, grown from it to 32 layers by inserting copies whose output projections
are zero (the loss does not change) and trained on; the target's own greedy text; the draft of
one layer, trained on the corpus and then distilled from the target. `tools/make_demo.py`
turns the result into `core/demo/`.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from demo_pair import corpus
from demo_pair.fit import Loss, Plan, fit, held_out_loss, logits_of, next_token_loss, rank, world
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from core.trace import repeated_share

WIDTH, TARGET_LAYERS, BASE_LAYERS = 192, 32, 8
TOKENS = {"base": 6_000_000, "target": 1_600_000, "draft": 5_000_000, "distilled": 2_500_000}


def main() -> None:
    """Run every stage that is not done yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for checkpoints and results")
    work = parser.parse_args().work
    work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    tokens, held_out = corpus_stage(work)
    base = trained(work, "base", new_model(BASE_LAYERS, seed=1), tokens, held_out)
    target = trained(work, "target", grow(base, TARGET_LAYERS), tokens, held_out)
    draft = trained(work, "draft", new_model(1, seed=2), tokens, held_out)
    distil(work, target, draft, tokens, held_out)


def corpus_stage(work: Path) -> tuple[np.ndarray, np.ndarray]:
    """Token ids of the training and of the held-out files."""
    if rank() == 0 and not (work / "held_out.npy").exists():
        files = corpus.files()
        texts = {held: [p.read_text(encoding="utf-8") for p in files if corpus.is_held_out(p) == held] for held in (False, True)}
        tokenizer = corpus.train_tokenizer(texts[False])
        tokenizer.save_pretrained(work / "tokenizer")
        np.save(work / "train.npy", corpus.encode(tokenizer, texts[False]))
        np.save(work / "held_out.npy", corpus.encode(tokenizer, texts[True]))
    barrier()
    tokens, held_out = np.load(work / "train.npy"), np.load(work / "held_out.npy")
    say(f"{len(tokens):,} training tokens, {len(held_out):,} held out")
    return tokens, held_out


def new_model(layers: int, seed: int) -> LlamaForCausalLM:
    """A Llama of the demo's width; o_proj and down_proj start at zero."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=corpus.VOCABULARY, hidden_size=WIDTH, intermediate_size=512, num_hidden_layers=layers,
        num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=1024, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    silence(model, range(layers))
    return model


def silence(model: LlamaForCausalLM, layers: range | list[int]) -> None:
    """Make these layers add nothing to the residual stream."""
    outputs = ("self_attn.o_proj.weight", "mlp.down_proj.weight")
    with torch.no_grad():
        for index in layers:
            for name in outputs:
                model.get_parameter(f"model.layers.{index}.{name}").zero_()


def grow(base: LlamaForCausalLM, layers: int) -> LlamaForCausalLM:
    """A deeper model of the same function: each layer is followed by silent copies of itself."""
    grown = new_model(layers, seed=3)
    copies = layers // base.config.num_hidden_layers
    state = {}
    for name, value in base.state_dict().items():
        if not name.startswith("model.layers."):
            state[name] = value
            continue
        index, rest = name.removeprefix("model.layers.").split(".", 1)
        for copy in range(copies):
            state[f"model.layers.{int(index) * copies + copy}.{rest}"] = value.clone()
    grown.load_state_dict(state)
    silence(grown, [i for i in range(layers) if i % copies])
    return grown


def trained(work: Path, name: str, model: LlamaForCausalLM, tokens: np.ndarray, held_out: np.ndarray) -> LlamaForCausalLM:
    """The model after plain next-token training; read from the work folder when it is there."""
    plan = plan_for(name)
    return finish(work, plan, model, held_out, lambda ids: next_token_loss(model, ids), tokens)


def distil(work: Path, target: LlamaForCausalLM, draft: LlamaForCausalLM, tokens: np.ndarray, held_out: np.ndarray) -> None:
    """Teach the draft the target's probabilities, on corpus text and then on the target's own greedy text."""
    own = own_text(work, target, tokens)
    mixed = np.concatenate([tokens, np.tile(own, len(tokens) // (2 * len(own)))])  # a third of what the draft sees

    def loss(ids: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            wanted = logits_of(target, ids[:, :-1]).float().log_softmax(-1)
        got = logits_of(draft, ids[:, :-1]).float().log_softmax(-1)
        return torch.nn.functional.kl_div(got, wanted, log_target=True, reduction="none").sum(-1).mean()

    finish(work, plan_for("distilled"), draft, held_out, loss, mixed)


def own_text(work: Path, target: Any, tokens: np.ndarray, length: int = 96, batches: int = 32, rows: int = 64) -> np.ndarray:
    """Greedy answers of the target to random pieces of training text, with their prompts, loops left out; each rank writes its share."""
    paths = [work / f"own_text.{batch}.npy" for batch in range(batches)]
    for batch in range(rank(), batches, world()):
        if paths[batch].exists():
            continue
        starts = np.random.default_rng([11, batch]).integers(0, len(tokens) - 160, rows)
        ids = torch.from_numpy(np.stack([tokens[s : s + 160] for s in starts]).astype(np.int64))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = target.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, do_sample=False, eos_token_id=None)
        np.save(paths[batch], out.numpy().astype(np.int32).ravel())
        say(f"own text {batch + 1}/{batches}")
    barrier()
    texts = np.concatenate([np.load(path).reshape(rows, 160 + length) for path in paths])
    return texts[[repeated_share(text[160:]) <= 0.5 for text in texts]].ravel()


def plan_for(name: str) -> Plan:
    """Steps from the token budget."""
    return Plan(name, steps=TOKENS[name] // (8 * 256 * world()), seed=sorted(TOKENS).index(name))


def finish(work: Path, plan: Plan, model: LlamaForCausalLM, held_out: np.ndarray, loss: Loss, tokens: np.ndarray) -> LlamaForCausalLM:
    """Train unless the work folder holds the result; report the held-out loss."""
    done = work / plan.name
    if not (done / "config.json").exists():
        fit(model, loss, tokens, plan, work)
        if rank() == 0:
            model.save_pretrained(done)
            PreTrainedTokenizerFast.from_pretrained(work / "tokenizer").save_pretrained(done)
            say(f"{plan.name}: held-out loss {held_out_loss(model, held_out):.3f} nats per token")
        barrier()
    model.load_state_dict(LlamaForCausalLM.from_pretrained(done, dtype=torch.float32).state_dict())
    return model


def barrier() -> None:
    """Wait for the other ranks."""
    if dist.is_initialized():
        dist.barrier()


def say(text: str) -> None:
    """Progress, once."""
    if rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()

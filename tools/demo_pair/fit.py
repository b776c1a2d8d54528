"""A small training loop: Muon for matrices, AdamW for the rest, resumable, one or more processes.

Started plainly it trains in one process; under ``torchrun`` each rank computes its own batch
with one thread and gradients are averaged, which on a few cores is faster than one process
with several threads and does not suffer from neighbours.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
import torch.distributed as dist

CONTEXT = 256
Batch: TypeAlias = torch.Tensor
Loss = Callable[[Batch], torch.Tensor]


@dataclass(frozen=True)
class Plan:
    """How long and how fast: `steps` of `batch` sequences of 256 tokens per rank."""

    name: str
    steps: int
    batch: int = 8
    matrix_rate: float = 0.02
    other_rate: float = 3e-3
    seed: int = 0


def world() -> int:
    """Number of processes that train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Which of them this one is."""
    return dist.get_rank() if dist.is_initialized() else 0


def window(tokens: np.ndarray, plan: Plan, step: int) -> Batch:
    """(batch, 257) token ids for one step; a function of seed, step and rank, so that a resumed run sees the same text."""
    draw = np.random.default_rng([plan.seed, step, rank()])
    starts = draw.integers(0, len(tokens) - CONTEXT - 1, plan.batch)
    return torch.from_numpy(np.stack([tokens[s : s + CONTEXT + 1] for s in starts]).astype(np.int64))


def fit(model: torch.nn.Module, loss: Loss, tokens: np.ndarray, plan: Plan, work: Path) -> None:
    """Train `model` in place; stop and start again at will, it goes on at the last checkpoint."""
    optimizers = _optimizers(model, plan)
    saved = work / f"{plan.name}.checkpoint.pt"
    first = _resume(model, optimizers, saved)
    began, shown = time.monotonic(), []
    for step in range(first, plan.steps):
        scale = _schedule(step, plan.steps)
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * scale
        value = loss(window(tokens, plan, step))
        value.backward()
        _average_gradients(model)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, _ in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        shown.append(value.item())
        if (step + 1) % 50 == 0 or step + 1 == plan.steps:
            _report(plan, step + 1, first, shown, began)
            shown = []
            _save(model, optimizers, saved, step + 1)


def held_out_loss(model: torch.nn.Module, tokens: np.ndarray, windows: int = 64) -> float:
    """Mean cross-entropy in nats per token over `windows` evenly spaced pieces of 256 tokens."""
    starts = np.linspace(0, len(tokens) - CONTEXT - 2, windows).astype(int)
    total = 0.0
    with torch.no_grad():
        for piece in np.array_split(starts, max(1, windows // 8)):
            ids = torch.from_numpy(np.stack([tokens[s : s + CONTEXT + 1] for s in piece]).astype(np.int64))
            total += next_token_loss(model, ids).item() * len(piece)
    return total / windows


def logits_of(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """(batch, length, vocabulary) in bf16 autocast; products only, so that the softmax stays fp32."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return model(input_ids=ids, use_cache=False).logits


def next_token_loss(model: torch.nn.Module, ids: Batch) -> torch.Tensor:
    """Cross-entropy of every next token, nats."""
    logits = logits_of(model, ids[:, :-1]).float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def _optimizers(model: torch.nn.Module, plan: Plan) -> list[tuple[torch.optim.Optimizer, float]]:
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    muon = torch.optim.Muon(matrices, lr=plan.matrix_rate, momentum=0.95, weight_decay=0.01)
    return [(muon, plan.matrix_rate), (torch.optim.AdamW(others, lr=plan.other_rate, betas=(0.9, 0.95)), plan.other_rate)]


def _schedule(step: int, steps: int) -> float:
    """Warm up for 20 steps, hold until 40 %, then fall linearly to 5 %."""
    warm, hold = 20, int(0.4 * steps)
    if step < warm:
        return (step + 1) / warm
    return 1.0 if step < hold else 1.0 - 0.95 * (step - hold) / max(1, steps - hold)


def _average_gradients(model: torch.nn.Module) -> None:
    if world() == 1:
        return
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat)
    flat /= world()
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def _resume(model: torch.nn.Module, optimizers: list[tuple[torch.optim.Optimizer, float]], saved: Path) -> int:
    if not saved.exists():
        return 0
    state = torch.load(saved, weights_only=True)
    model.load_state_dict(state["model"])
    for (optimizer, _), old in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(old)
    return state["step"]


def _save(model: torch.nn.Module, optimizers: list[tuple[torch.optim.Optimizer, float]], saved: Path, step: int) -> None:
    if rank() != 0:
        return
    state = {"model": model.state_dict(), "optimizers": [o.state_dict() for o, _ in optimizers], "step": step}
    torch.save(state, saved.with_suffix(".new"))
    saved.with_suffix(".new").replace(saved)


def _report(plan: Plan, step: int, first: int, shown: list[float], began: float) -> None:
    if rank() != 0:
        return
    seconds = time.monotonic() - began
    speed = (step - first) * plan.batch * CONTEXT * world() / seconds
    left = (plan.steps - step) * plan.batch * CONTEXT * world() / speed
    print(f"{plan.name} {step}/{plan.steps} loss {np.mean(shown):.3f}  {speed:,.0f} tokens/s  {left / 60:.0f} min left", flush=True)

"""Put the trained pair, its prompts and its cards into `core/demo/`.

    python tools/make_demo.py --work build/demo_pair

Weights are stored in bf16; every figure on the cards is measured on the stored weights.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from demo_pair import corpus, prompts
from demo_pair.fit import held_out_loss
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from core.trace import repeated_share  # noqa: E402

DEMO = ROOT / "core" / "demo"
PER_KIND, ANSWER_TOKENS = 8, 48
LOOP_SHARE, MOST_REPEATED = 0.5, 0.4
NEURONS = 480  # of 512 per layer: what lets the pair stay below 32 MB

CARD = """---
license: psf-2.0
language: code
pipeline_tag: text-generation
---
# Draftgauge demo {role}

A Llama of {layers} {layer_word} x {width}, {parameters:,} parameters, {tokens:,}-token byte-level BPE shared by the pair.
It exists so that speculative decoding can be measured on any CPU in a minute; it is no use as a language model.

* **Data**: the source of CPython {python}'s standard library (Python Software Foundation License 2), tests included,
  tables and fixtures left out (`tools/demo_pair/corpus.py`); {train:,} tokens. Every 40th file by hash is held out.
* **Training**: {training}
* **Command**: `torchrun --nproc-per-node 2 tools/train_demo_pair.py --work build/demo_pair`, then
  `python tools/make_demo.py --work build/demo_pair` (seeded and resumable; two CPU cores).
* **Held-out loss**: {loss:.3f} nats per token.
* **Greedy answers to the 24 bundled prompts**, {answer} tokens each: {share:.0%} of the 8-grams repeat an earlier one of the same
  answer; {loops} of 24 answers loop (more than half of their 8-grams repeated). Prompts whose target answer repeats more than {most:.0%} were
  passed over by rule (`tools/demo_pair/prompts.py`): small models loop when they decode greedily, and loops flatter a draft. {extra}
"""
TRAINING = {
    "target": "a base of 8 layers, grown to 32 by inserting copies with zero output projections, then trained on; Muon and AdamW,\n"
    "  bf16 autocast; trimmed to the 480 strongest of 512 feed-forward neurons per layer.",
    "draft": "next-token loss on the corpus, then distilled (KL) from the target on the corpus and on the target's own greedy text.",
}


@dataclass(frozen=True)
class Answers:
    """Greedy answers of one model to the bundled prompts, and how repetitive they are."""

    tokens: list[np.ndarray]
    repeated: list[float]

    @property
    def loops(self) -> int:
        """Answers in which more than half of the 8-grams repeat an earlier one."""
        return sum(share > LOOP_SHARE for share in self.repeated)


def main() -> None:
    """Write core/demo/{target,draft,prompts.json}."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder that train_demo_pair.py filled")
    work = parser.parse_args().work
    torch.set_num_threads(1)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(work / "tokenizer")
    models = {role: store(work / source, DEMO / role, tokenizer) for role, source in (("target", "target"), ("draft", "distilled"))}
    chosen = choose_prompts(tokenizer, models["target"])
    (DEMO / "prompts.json").write_text(json.dumps(chosen, indent=1) + "\n", encoding="utf-8")
    texts = [tokenizer(row["text"])["input_ids"] for row in chosen]
    answers = {role: greedy(model, texts) for role, model in models.items()}
    alpha = agreement(models["draft"], texts, answers["target"].tokens)
    for role, model in models.items():
        extra = f"The draft's first choice equals the target's token at {alpha:.0%} of the positions." if role == "draft" else ""
        write_card(work, role, model, answers[role], extra)
        print(f"{role}: {answers[role].loops} of {len(texts)} answers loop; alpha {alpha:.3f}")


def choose_prompts(tokenizer: PreTrainedTokenizerFast, target: LlamaForCausalLM) -> list[dict[str, str]]:
    """The first eight candidates of each kind whose answer repeats at most `MOST_REPEATED` of its 8-grams."""
    chosen = []
    for kind in prompts.KINDS:
        rows, seen = [], 0
        for path, text in prompts.candidates(tokenizer, kind):
            seen += 1
            if greedy(target, [tokenizer(text)["input_ids"]]).repeated[0] <= MOST_REPEATED:
                rows.append({"label": kind, "source": path, "text": text})
            if len(rows) == PER_KIND:
                break
        print(f"{kind}: {len(rows)} of the first {seen} candidates")
        if len(rows) < PER_KIND:
            raise SystemExit(f"only {len(rows)} prompts of kind {kind!r}; {PER_KIND} are needed")
        chosen += rows
    return chosen


def store(source: Path, folder: Path, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Trim, save in bf16 and read back, so that figures belong to what is stored."""
    trimmed(LlamaForCausalLM.from_pretrained(source, dtype=torch.bfloat16), NEURONS).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def trimmed(model: LlamaForCausalLM, neurons: int) -> LlamaForCausalLM:
    """The same model with the `neurons` strongest feed-forward neurons of every layer: largest product of their three norms."""
    state = model.state_dict()
    for layer in range(model.config.num_hidden_layers):
        gate, up, down = (f"model.layers.{layer}.mlp.{name}_proj.weight" for name in ("gate", "up", "down"))
        strength = state[gate].float().norm(dim=1) * state[up].float().norm(dim=1) * state[down].float().norm(dim=0)
        kept = strength.topk(neurons).indices.sort().values
        state |= {gate: state[gate][kept], up: state[up][kept], down: state[down][:, kept]}
    config = LlamaConfig.from_dict(model.config.to_dict() | {"intermediate_size": neurons})
    smaller: Any = LlamaForCausalLM(config)
    smaller.load_state_dict(state)
    return smaller.to(torch.bfloat16)


def greedy(model: Any, texts: list[list[int]]) -> Answers:
    """The model's own answers, without their prompts."""
    rows = []
    for ids in texts:
        batch = torch.tensor([ids])
        out = model.generate(batch, attention_mask=torch.ones_like(batch), max_new_tokens=ANSWER_TOKENS, do_sample=False)
        rows.append(out[0, len(ids) :].numpy())
    return Answers(rows, [repeated_share(row) for row in rows])


def agreement(draft: LlamaForCausalLM, texts: list[list[int]], answers: list[np.ndarray]) -> float:
    """Share of answer positions where the draft's first choice is the target's token."""
    same = total = 0
    for ids, answer in zip(texts, answers, strict=True):
        with torch.no_grad():
            logits = draft(input_ids=torch.tensor([[*ids, *answer]])).logits[0, len(ids) - 1 : -1]
        same += int((logits.argmax(-1).numpy() == answer).sum())
        total += len(answer)
    return same / total


def write_card(work: Path, role: str, model: LlamaForCausalLM, answers: Answers, extra: str) -> None:
    """The model's README.md, with measured figures."""
    config = model.config
    text = CARD.format(
        role=role, layers=config.num_hidden_layers, layer_word="layer" if config.num_hidden_layers == 1 else "layers", width=config.hidden_size,
        parameters=model.num_parameters(), tokens=corpus.VOCABULARY, python=sys.version.split()[0], train=len(np.load(work / "train.npy")),
        training=TRAINING[role], loss=held_out_loss(model, np.load(work / "held_out.npy")), answer=ANSWER_TOKENS,
        share=float(np.mean(answers.repeated)), most=MOST_REPEATED, loops=answers.loops, extra=extra,
    )  # fmt: skip
    (DEMO / role / "README.md").write_text(text.rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

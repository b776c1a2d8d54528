"""A whole script for one pair, to be copied and run as it is: both models, the draft's settings, one answer.

Written for Transformers 5.24. Not covered: GGUF files, chat templates, sampling, other engines.
"""

from core.policies import FixedGamma, to_transformers
from core.runs import ModelRef


def script(target: ModelRef, draft: ModelRef, gamma: int) -> str:
    """Python for target and draft (folders, or Hub ids at the revision that was read), drafting `gamma` tokens at a time."""
    settings = [f"draft.generation_config.{name} = {value!r}" for name, value in to_transformers(FixedGamma(gamma)).items()]
    return "\n".join(
        [
            "from transformers import AutoModelForCausalLM, AutoTokenizer",
            "",
            f'target = AutoModelForCausalLM.from_pretrained({_place(target)}, dtype="auto")',
            f'draft = AutoModelForCausalLM.from_pretrained({_place(draft)}, dtype="auto").to(target.device)',
            f"tokenizer = AutoTokenizer.from_pretrained({_place(target)})",
            *settings,
            "",
            'inputs = tokenizer("def add(a, b):", return_tensors="pt").to(target.device)',
            "output = target.generate(**inputs, assistant_model=draft, do_sample=False, max_new_tokens=40)",
            "print(tokenizer.decode(output[0], skip_special_tokens=True))",
            "",
        ]
    )


def _place(ref: ModelRef) -> str:
    """As a Python literal, whatever the name holds."""
    return f"{ref.path!r}, revision={ref.revision!r}" if ref.revision else repr(ref.path)

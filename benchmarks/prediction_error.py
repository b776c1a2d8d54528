"""Predicted against really measured speedup, gamma by gamma, on the embedded pair.

    python -m benchmarks.prediction_error

One ordinary measurement first; then every fixed gamma of GAMMAS and the library's default are run on
PROMPTS prompts, each beside plain runs of the same prompt (ratios in one session, so that a drifting
machine cancels), and compared with what the replay predicts for the same prompts. Prints a table:
policy, predicted, measured, gap. Needs an idle machine, about five minutes on two cores.
"""

import statistics

from core import columns as col
from core import demo
from core.measured import Generation
from core.policies import FixedGamma, Plain, Policy, TransformersDefault, describe
from core.predict import predict
from core.runs import Run, RunSpec
from core.worker.generate import run_policy
from core.worker.inputs import encode_prompts
from core.worker.models import Garage
from tools.make_example import measured

GAMMAS = (1, 2, 3, 4, 5, 6, 8, 10, 12)
PROMPTS = 12


def main() -> None:
    """Measure, run every policy, compare."""
    spec = RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=demo.prompts()[:: len(demo.prompts()) // PROMPTS])
    run = measured(spec)
    policies: list[Policy] = [*map(FixedGamma, GAMMAS), TransformersDefault()]
    table = predict(with_runs(run, policies), policies)
    gaps = []
    print(f"{'policy':28} predicted  measured     gap")
    for policy, predicted, real in zip(policies, table[col.SPEEDUP], table[col.MEASURED], strict=True):
        gaps.append(predicted / real - 1)
        print(f"{describe(policy):28} {predicted:8.2f}x {real:8.2f}x {gaps[-1]:+7.1%}")
    sizes = [abs(gap) for gap in gaps]
    print(f"median {statistics.median(sizes):.1%}, worst {max(sizes):.1%}; disturbed: {run.disturbed}")


def with_runs(run: Run, policies: list[Policy]) -> Run:
    """The run with a confirmation of every policy on every prompt in place of its own."""
    pair = Garage().get(run.spec)
    kept = [g for g in run.generations if g.purpose != "confirmation"]
    block = max(g.block for g in kept) + 1
    for index, prompt in enumerate(encode_prompts(pair, run.spec)):
        for policy in policies:
            for each in (Plain(), policy, Plain()):
                timed = run_policy(pair, prompt, each, run.spec.max_new_tokens)
                rounds = () if isinstance(each, Plain) else timed.rounds
                kept.append(
                    Generation(
                        purpose="confirmation",
                        block=block,
                        prompt=index,
                        policy=each,
                        tokens=len(timed.tokens),
                        total_s=timed.total_s,
                        first_token_s=timed.first_token_s,
                        rounds=rounds,
                    )
                )
            block += 1
    return run.model_copy(update={"generations": tuple(kept)})


if __name__ == "__main__":
    main()

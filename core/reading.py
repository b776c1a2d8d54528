"""How to read a result, for people who have not met the words; the same on the pages and in reports. Plain text."""


def how_to_read(*, sampled: bool = False) -> tuple[tuple[str, str], ...]:
    """Pairs of a term and what it means; what is said of the text depends on whether it was sampled."""
    same = (
        "Sampled texts differ from call to call, with a draft and without; the distribution of texts is the same, and they come sooner."
        if sampled
        else "In float32 the text is the same as without a draft, only sooner."
    )
    return (
        (
            "The idea",
            "A small draft model proposes up to gamma tokens; the large target checks all of them in one pass and keeps those "
            f"it agrees with, plus one of its own. {same}",
        ),
        (
            "Curve",
            "1x is plain decoding. Solid: replayed from a recorded trace with the costs of this machine, with a 95 % band. Diamonds: "
            "really run. Dashed: the classical formula, which takes the check for one plain step and the loop for free. Dotted: what-if values.",
        ),
        (
            "Map",
            "To the right drafts cost more (c), upwards they are accepted more often (alpha). Each cell shows the best gamma; its colour "
            "says what that gains: teal faster, orange slower. Right of the red line drafting does not pay.",
        ),
        (
            "Two intervals",
            "On these prompts: it holds the noise of timing and calibration. For traffic like these: it also holds that other "
            "prompts of the same kind would differ; with few prompts it is wide, and more prompts narrow it.",
        ),
        (
            "Words",
            "alpha: chance that a drafted token is accepted. c: one drafted token inside the loop, that is the draft's pass d1 and e, the "
            "loop's share. v: the target's check of several tokens. h: the rest of a round. All divided by one plain target step. The classical "
            "formula knows neither e, v nor h: its c is d1, as one would time single steps.",
        ),
    )

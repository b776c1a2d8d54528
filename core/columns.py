"""The columns of the table of policies that `core.predict.predict` makes and `core.recommend.decide` reads.

A value that does not exist is None, never NaN.
"""

POLICY = "policy"
"""The policy itself."""
SETTING = "setting"
"""Its short name."""
KIND = "kind"
"""Predicted, or confirmed when it was really run."""
SPEEDUP = "speedup"
"""Predicted, decode only, ratio to plain."""
END_TO_END = "end_to_end"
"""Predicted, both prefills included."""
TOKENS_PER_ROUND = "tokens_per_round"
DRAFTED_PER_TOKEN = "drafted_per_token"
"""Drafted tokens per emitted token, the most possible."""
UTILISATION = "utilisation"
"""Accepted / drafted; None when nothing is drafted."""
THESE_LOW, THESE_HIGH = "these_low", "these_high"
"""Interval of the prediction on these prompts: timing noise and calibration error."""
TRAFFIC_LOW, TRAFFIC_HIGH = "traffic_low", "traffic_high"
"""Interval of the prediction for traffic like these prompts; None below 8 prompts, and where the order of the prompts matters."""
DRAFT_SHARE, VERIFY_SHARE, REST_SHARE = "draft_share", "verify_share", "rest_share"
"""Shares of the predicted decoding time; they add up to 1."""
MEASURED = "measured"
"""Measured speedup, decode only; None when not run."""
MEASURED_LOW, MEASURED_HIGH = "measured_low", "measured_high"
"""Its interval on these prompts."""
MEASURED_TRAFFIC_LOW, MEASURED_TRAFFIC_HIGH = "measured_traffic_low", "measured_traffic_high"
"""Its interval for traffic; None below 8 prompts that were run."""
NOTE = "note"
"""What must be known to read the row rightly, a sentence; None where nothing must."""
MODEL_HALF = "model_half"
"""Half-width of the log interval on these prompts."""
STEPS, COST = "steps", "cost"
"""Arrays with one value per prompt: plain steps after the first token, and the policy's cost in plain steps."""
MEASURED_PLAIN, MEASURED_ASSISTED = "measured_plain", "measured_assisted"
"""Arrays with one value per prompt: decoding seconds plain and assisted, 0 where not run; None when never run."""

FOR_PEOPLE = (
    SETTING,
    KIND,
    SPEEDUP,
    THESE_LOW,
    THESE_HIGH,
    TRAFFIC_LOW,
    TRAFFIC_HIGH,
    MEASURED,
    MEASURED_LOW,
    MEASURED_HIGH,
    END_TO_END,
    TOKENS_PER_ROUND,
    UTILISATION,
    DRAFTED_PER_TOKEN,
    DRAFT_SHARE,
    VERIFY_SHARE,
    REST_SHARE,
    NOTE,
)
"""The columns without the arrays, in reading order."""

"""`python tools/make_known_models.py`: read every profile of `core/known/models.json` off the library again.

Takes the config values and sources of tests/data (model_configs.json, models.csv). Run it when Transformers is updated.
"""

import csv
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from core import builtin  # noqa: E402
from core.builtin import BuiltIn  # noqa: E402
from core.plan.cache_profile import cache_profile  # noqa: E402

DATA = ROOT / "tests" / "data"


def main() -> None:
    """Write the file anew."""
    configs = json.loads((DATA / "model_configs.json").read_text(encoding="utf-8"))
    with (DATA / "models.csv").open(encoding="utf-8") as file:
        sources = {row["model_id"]: row["config_source"] for row in csv.DictReader(file)}
    entries = [BuiltIn(address, config, cache_profile(config), sources[address]) for address, config in configs.items()]
    builtin.write(entries)
    print(f"{len(entries)} models, {builtin.FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

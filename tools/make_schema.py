"""Write `core/schema/run-v1.json`, the JSON schema of exported runs, from the classes that read them.

`python tools/make_schema.py`, after any change to `core.run_document`, `core.runs` or `core.record`.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from core.run_document import RunDocument  # noqa: E402

PLACE = ROOT / "core" / "schema" / "run-v1.json"


def schema() -> str:
    """The schema (JSON Schema 2020-12) as text; serialised form, so that a run's traces are not asked for inside it."""
    found = RunDocument.model_json_schema(mode="serialization")
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "title": "A run of Draftgauge, version 1"}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text(schema(), encoding="utf-8")
    print(f"Wrote {PLACE}")

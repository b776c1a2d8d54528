"""Write `core/schema/`: the JSON schema of exported runs from the classes that read them, and what the columns of the CSV files mean.

`python tools/make_schema.py`, after any change to `core.run_document`, `core.runs`, `core.measured`, `core.record` or `core.export_csv`.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from core.export_csv import PER_POLICY, PER_PROMPT, PER_TOKEN  # noqa: E402
from core.run_document import RunDocument  # noqa: E402

PLACE = ROOT / "core" / "schema" / "run-v1.json"
TABLES = PLACE.with_name("tables.md")


def schema() -> str:
    """The schema (JSON Schema 2020-12) as text; serialised form, so that a run's traces are not asked for inside it."""
    found = RunDocument.model_json_schema(mode="serialization")
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "title": "A run of Draftgauge, version 1"}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def tables() -> str:
    """The three CSV files as Markdown, column by column."""
    parts = ["# Columns of the CSV files\n"]
    for title, columns in (("One row per prompt", PER_PROMPT), ("One row per policy", PER_POLICY), ("One row per answer token", PER_TOKEN)):
        rows = [f"| `{name}` | {meaning} |" for name, meaning in columns.items()]
        parts += [f"## {title}\n", "| column | meaning |", "|---|---|", *rows, ""]
    return "\n".join(parts)


if __name__ == "__main__":
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text(schema(), encoding="utf-8")
    TABLES.write_text(tables(), encoding="utf-8")
    print(f"Wrote {PLACE} and {TABLES}")

"""A server of its own process, for the tests that kill it: makes a bench, submits one run, and waits.

python -m tests.small_server SETTINGS SPEC
"""

import sys
import time

from core.bench import Bench
from core.child import Entry
from core.runs import RunSpec
from core.settings import Settings
from core.store import open_store

if __name__ == "__main__":
    settings, spec = Settings.model_validate_json(sys.argv[1]), RunSpec.model_validate_json(sys.argv[2])
    bench = Bench(settings, open_store(settings), entry=Entry("tests.jobs:by_seed", "tests.jobs:devices"))
    print(bench.submit(spec), flush=True)
    time.sleep(600)

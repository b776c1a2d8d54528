"""`python -m core.worker`: what `core.child` starts; not meant for people.

torch is imported only after the thread that watches the server runs, so that a server which
dies meanwhile leaves no orphan.
"""

import argparse

from core import log
from core.settings import Settings
from core.worker.process import Process


def main() -> None:
    """Serve commands until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", required=True)
    parser.add_argument("--settings", required=True, help="settings as JSON")
    parser.add_argument("--measure", required=True, help="module:function that measures a run")
    parser.add_argument("--devices", required=True, help="module:function that lists the devices")
    given = parser.parse_args()
    log.set_up()
    Process(Settings.model_validate_json(given.settings), given.device).serve(given.measure, given.devices)


if __name__ == "__main__":
    main()

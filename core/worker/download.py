"""Bring models from the Hub into its normal cache, before they are loaded from there.

The download runs in a process of its own, so that it can be cancelled whatever it does, ends when the
worker does, and is all that talks to the network: the worker itself loads local files only. Files that
came whole are kept when a download is cut off; those under way begin anew, because huggingface_hub 2.4
gives every partial file a name of its own. Unit: bytes.

`python -m core.worker.download` is that process. What to fetch comes as a line of JSON on standard
input, which stays open until it should end; progress, and at last the folders or a refusal, go out.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from huggingface_hub import constants

from core.child import HUB_OFFLINE_ASKED, ROOT
from core.errors import DraftgaugeError, ModelError
from core.log import set_up
from core.redact import redacted
from core.runs import ModelRef, Stage
from core.worker import hub_config, hub_files

Report = Callable[[Stage, int, int], None]

_COMMIT = re.compile(r"[0-9a-f]{40}")
_PARTIAL = re.compile(r"(?P<etag>.+)\.[0-9a-f]{8}\.incomplete")


def fetch(refs: Sequence[ModelRef], report: Report, *, weights: bool = True) -> list[Path]:
    """The folders of these Hub models at their revisions, downloaded where they are not whole in the cache.

    weights: without them the folders hold config.json, and nothing more is downloaded. `report` is told the stage "download" with bytes done
    and in total. Raises ModelError with a sentence: no such model or revision, gated, no safetensors weights, network or disk failed.
    """
    cache = Path(constants.HF_HUB_CACHE)
    whole = hub_files.whole if weights else hub_config.there
    found = [whole(ref, cache) if _COMMIT.fullmatch(ref.revision) else None for ref in refs]  # a branch may have moved on
    there = [folder for folder in found if folder is not None]
    if len(there) == len(refs):
        return there
    report("download", 0, 0)
    try:
        return _in_a_process(refs, cache, report, weights)
    finally:
        for ref in refs:
            sweep(cache, ref.path)


def _in_a_process(refs: Sequence[ModelRef], cache: Path, report: Report, weights: bool) -> list[Path]:
    command = [sys.executable, "-m", "core.worker.download"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=_environment(), bufsize=0)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        asked = {"cache": str(cache), "refs": [ref.model_dump() for ref in refs], "weights": weights}
        with contextlib.suppress(BrokenPipeError):  # it has died; that it says nothing tells
            process.stdin.write(json.dumps(asked).encode() + b"\n")
        for line in process.stdout:
            said: dict[str, Any] = json.loads(line)
            if "folders" in said:
                return [Path(folder) for folder in said["folders"]]
            if "refused" in said:
                raise ModelError(said["refused"])
            report("download", said["done"], said["total"])
        raise ModelError("The download stopped unexpectedly. The end of the worker's log may say why; what came whole is kept, so try again.")
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _environment() -> dict[str, str]:
    """The worker's own, without its ban on the network; a ban that the user asked for is kept."""
    return os.environ | {"HF_HUB_OFFLINE": os.environ.get(HUB_OFFLINE_ASKED, os.environ.get("HF_HUB_OFFLINE", ""))}


def sweep(cache: Path, repository: str) -> None:
    """Remove what killed downloads of a repository left half-written; a file that somebody is downloading now is locked, and stays."""
    name = "models--" + repository.replace("/", "--")
    for file in (cache / name / "blobs").glob("*.incomplete"):
        partial = _PARTIAL.fullmatch(file.name)
        if partial:
            lock = FileLock(cache / ".locks" / name / f"{partial['etag']}.lock", timeout=0, mode=0o664)
            with contextlib.suppress(Timeout, OSError), lock:
                file.unlink(missing_ok=True)


def main() -> None:
    """What the process does. Everything that libraries print goes to standard error, which is the worker's log."""
    set_up()
    voice = os.dup(1)
    os.dup2(2, 1)

    def say(**message: Any) -> None:
        os.write(voice, json.dumps(message).encode() + b"\n")

    # Unbuffered: a buffered reader's lock would abort the interpreter when it ends by itself.
    with open(0, "rb", buffering=0, closefd=False) as asked:
        what = json.loads(asked.readline())
        threading.Thread(target=_end_with, args=(asked,), name="worker", daemon=True).start()
        refs = [ModelRef.model_validate(ref) for ref in what["refs"]]
        try:
            cache = Path(what["cache"])
            if what["weights"]:
                folders = hub_files.download(refs, cache, lambda done, total: say(done=done, total=total))
            else:
                folders = hub_config.download(refs, cache)
        except DraftgaugeError as error:
            say(refused=redacted(str(error)))
        else:
            say(folders=[str(folder) for folder in folders])


def _end_with(worker: Any) -> None:
    """End at once, whatever the other threads do, when the worker has gone."""
    try:
        while worker.read(1):
            pass
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()

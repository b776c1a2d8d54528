"""A Hub that is down, busy, slow, endless or not the Hub: a sentence each, and nothing takes longer than its limit."""

import gzip
import json
import time
from pathlib import Path

import pytest
import trustme

from core import demo
from core.errors import DraftgaugeError
from core.hub_client import Limits
from core.hub_errors import HubUnreachable
from core.plan.describe_hub import describe_hub
from core.plan.search import search_hub
from core.settings import Settings
from tests import hub_server as faults
from tests.hub_models import API, CONFIG, HEAD, ID, QUICK, SLACK_S, WEIGHTS, described, ref
from tests.hub_server import COMMIT, Fault, HubServer, hub_server

SPOILED = (Path(demo.TARGET.path) / "config.json").read_bytes().replace(b"4096", b"4095")
UNREACHABLE: list[tuple[str, str, Fault, str]] = [
    ("silent", API, faults.silence, "sent nothing for 0.5 seconds"),
    ("dripping body", API, faults.drip(HEAD), "did not finish its answer within 1.5 seconds"),
    ("dripping head", API, faults.drip(b"HTTP/1.1 200 OK\r\nX-A: "), "did not finish its answer within 1.5 seconds"),
    ("dripping file", CONFIG, faults.drip(HEAD), "did not finish its answer within 1.5 seconds"),
    ("dripping header of weights", WEIGHTS, faults.drip(b"HTTP/1.1 206 OK\r\nContent-Length: 100001\r\n\r\n"), "did not finish its answer within"),
    ("busy", API, faults.status(429, retry_after="120"), "takes no more requests for now (429). It asks to wait 120 seconds."),
    ("busy in the Hub's words", API, faults.status(429, ratelimit='"api";r=0;t=55'), "It asks to wait 55 seconds."),
    ("busy at a file", CONFIG, faults.status(429, retry_after="120"), "It asks to wait 120 seconds."),
    ("busy again and again", API, faults.status(429, retry_after="0"), "takes no more requests for now (429)"),
    ("broken", API, faults.status(503), "is out of order for the moment (503)"),
    ("broken at a file", CONFIG, faults.status(500), "is out of order for the moment (500)"),
    ("cut off", API, faults.cut, "broke off its answer"),
    ("cut off at a file", CONFIG, faults.cut, "broke off its answer"),
    ("no JSON", API, faults.raw(b"{"), "gave an answer that is damaged or not the Hub's"),
    ("a page to log in", API, faults.raw(b"<html>Welcome to the airport", Content_Type="text/html"), "damaged or not the Hub's"),
    ("a list", API, faults.raw(b"[1]"), "damaged or not the Hub's"),
    ("a deep list", API, faults.raw(b"[" * 100_000), "damaged or not the Hub's"),
    ("no commit", API, faults.raw(b'{"id": "acme/target"}'), "damaged or not the Hub's"),
    ("a path for a name", API, faults.raw(json.dumps({"id": "../../etc", "sha": COMMIT}).encode()), "damaged or not the Hub's"),
    ("a path for a commit", API, faults.raw(b'{"id": "acme/target", "sha": "../../../../etc"}'), "damaged or not the Hub's"),
    ("another server", "HEAD /acme", faults.raw(b""), "could not be fetched from"),
    ("in a circle", API, lambda handler: handler.redirect(302, handler.path), "sent the request in a circle"),
    ("packed", API, faults.raw(gzip.compress(bytes(10_000_000)), Content_Encoding="gzip"), "answered in a packed form"),
    ("changed on the way", CONFIG, faults.raw(SPOILED), "config.json of acme/target arrived damaged: its checksum is not the Hub's"),
    ("no HTTP", API, faults.drip(b"SSH-2.0\r\n\r\n"), "broke off its answer"),
]


@pytest.mark.parametrize(("where", "fault", "words"), [row[1:] for row in UNREACHABLE], ids=[row[0] for row in UNREACHABLE])
def test_a_hub_in_trouble_is_a_sentence_in_time(hub: HubServer, settings: Settings, where: str, fault: Fault, words: str) -> None:
    hub.faults[where] = fault
    begun = time.monotonic()
    with pytest.raises(HubUnreachable) as caught:
        described(hub, settings)
    assert time.monotonic() - begun < QUICK.total_s + SLACK_S
    assert words in str(caught.value)
    assert str(caught.value).endswith(f"Nothing of {ID} is kept on this machine.")


@pytest.mark.parametrize("where", [API, CONFIG, WEIGHTS])
@pytest.mark.parametrize("fault", [faults.status(503), faults.status(429, retry_after="0"), faults.cut])
def test_a_fault_that_passes_is_waited_out(hub: HubServer, settings: Settings, where: str, fault: Fault) -> None:
    hub.faults[where] = faults.once(fault)
    assert described(hub, settings, limits=Limits(pause_s=0.05, total_s=5)).weights is not None


@pytest.mark.parametrize("where", [API, WEIGHTS])
def test_an_endless_answer_is_cut_off(hub: HubServer, settings: Settings, where: str) -> None:
    hub.faults[where] = faults.endless
    with pytest.raises(DraftgaugeError, match=r"The Hub's answer is larger than (8\.0|0\.1) MB, the most that is read"):
        described(hub, settings, limits=Limits(total_s=10))


def test_a_closed_port_an_unknown_name_and_a_foreign_certificate(hub: HubServer, settings: Settings, tmp_path: Path) -> None:
    for url, words in [
        ("http://127.0.0.1:9", "127.0.0.1 cannot be reached"),
        ("http://no-such-host.invalid", "The name no-such-host.invalid cannot be looked up"),
        (hub.url.replace("http:", "https:"), "does not answer over TLS"),
    ]:
        with pytest.raises(HubUnreachable, match=words):
            describe_hub(ref(), settings, QUICK, url)
    with hub_server(certificate(tmp_path)) as secure, pytest.raises(HubUnreachable, match=r"The certificate of 127\.0\.0\.1 is not trusted here"):
        described(secure, settings)


def certificate(folder: Path) -> Path:
    """A certificate that nobody vouches for."""
    own = folder / "own.pem"
    trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(own))
    return own


@pytest.mark.parametrize(
    ("fault", "words"),
    [(faults.status(503), "out of order"), (faults.raw(b'[{"no": "id"}]'), "damaged or not the Hub's"), (faults.drip(HEAD), "did not finish")],
)
def test_a_search_in_trouble_is_a_sentence_in_time(hub: HubServer, settings: Settings, fault: Fault, words: str) -> None:
    hub.faults[API] = fault
    begun = time.monotonic()
    with pytest.raises(HubUnreachable, match=words):
        search_hub("x", settings, QUICK, hub.url)
    assert time.monotonic() - begun < QUICK.total_s + SLACK_S


def test_a_job_that_was_given_up_does_not_disturb_the_next(hub: HubServer, settings: Settings) -> None:
    hub.faults[f"{API}/slow"] = faults.drip(HEAD)
    with pytest.raises(HubUnreachable, match="did not finish"):
        described(hub, settings, "slow/model")
    for _ in range(3):
        info = described(hub, settings, limits=Limits(total_s=10))
        assert info.weights is not None
        assert info.bytes_read < 450_000

"""What `tools/deploy` says agrees with the program: its port, paths, folders, limits, patience, and the names of settings."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from streamlit import config
from streamlit.web.server.starlette import starlette_routes as routes
from streamlit.web.server.starlette.starlette_server_config import DEFAULT_WEBSOCKET_PING_INTERVAL

from core import station
from core.settings import PREFIX, Settings
from core.ui import server

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tools" / "deploy"
FILES = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.iterdir()}
STREAMLIT: dict[str, Any] = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
UPLOAD_MB = STREAMLIT["server"]["maxUploadSize"]
PORT = 8501
MOST_DEVICES = 8


def instructions(name: str) -> list[str]:
    """The Dockerfile's words after this instruction, one text for each."""
    whole = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", FILES["Dockerfile"]))
    return re.findall(rf"(?m)^{name} (.*)$", whole)


def unit(name: str) -> list[str]:
    """The values of a directive of the service."""
    return re.findall(rf"(?m)^{name}=(.*)$", FILES["draftgauge.service"])


def compose() -> dict[str, Any]:
    return yaml.safe_load(FILES["compose.yaml"])["services"]["draftgauge"]


def location(path: str) -> str:
    """What nginx does at a path."""
    found = re.search(rf"location {re.escape(path)} \{{(.*?)\}}", FILES["nginx.conf"], re.DOTALL)
    assert found, path
    return found[1]


IMAGE = dict(pair.split("=", 1) for line in instructions("ENV") for pair in line.split())
SERVICE = dict(pair.split("=", 1) for pair in unit("Environment"))


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_setting_that_is_named_exists(name: str) -> None:
    ours = {PREFIX + field.upper() for field in Settings.model_fields}
    theirs = {option.env_var for option in config.get_config_options().values()}
    named = set(re.findall(r"\b(?:DRAFTGAUGE|STREAMLIT)_[A-Z_]+\b", FILES[name]))
    assert named <= ours | theirs


def test_all_speak_of_the_port_at_which_streamlit_listens() -> None:
    assert config.get_config_options()["server.port"].default_val == PORT
    assert "port" not in STREAMLIT["server"]
    ports = {name: set(re.findall(r"(?::|EXPOSE |app_port: |[Pp]ort )(8\d{3})\b", text)) for name, text in FILES.items()}
    assert {name for name, found in ports.items() if found} == {"Dockerfile", "compose.yaml", "nginx.conf", "README.md"}
    assert set.union(*ports.values()) == {str(PORT)}


def test_all_start_the_app_with_readiness_and_headers() -> None:
    assert instructions("CMD") == ['["streamlit", "run", "app.py"]']
    assert instructions("ENTRYPOINT") == ['["tini", "--"]']
    [start] = unit("ExecStart")
    [folder] = unit("WorkingDirectory")
    assert start == f"{folder}/.venv/bin/streamlit run app.py"
    assert unit("Documentation") == [f"file://{folder}/tools/deploy/README.md"]
    assert f"git clone <this repository> {folder} && cd {folder}" in FILES["README.md"]
    assert "/ready'" in instructions("HEALTHCHECK")[0]
    assert [route.path for route in server.around()["routes"]] == ["/ready"]


def test_the_image_holds_what_the_app_imports_and_nothing_else_is_sent_to_the_builder() -> None:
    copied = [source for line in instructions("COPY") for source in line.split()[:-1]]
    assert all((ROOT / source).exists() for source in copied)
    assert {"app.py", "core", "pages", ".streamlit/config.toml", "requirements.txt"} <= set(copied)
    assert sorted(re.findall(r"(?m)^!(.*)$", FILES["Dockerfile.dockerignore"])) == sorted(copied)
    modules = [ROOT / "app.py", *(ROOT / "core").rglob("*.py"), *(ROOT / "pages").rglob("*.py")]
    assert not any(re.search(r"^\s*(from|import) (tests|benchmarks|tools)\b", file.read_text(encoding="utf-8"), re.MULTILINE) for file in modules)


def test_the_image_takes_the_pinned_torch_and_a_python_that_is_supported() -> None:
    wanted = re.search(r"grep '(.*?)' requirements.txt", FILES["Dockerfile"])
    assert wanted
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if re.match(wanted[1], line)]) == 1
    [version] = re.findall(r"^FROM python:3\.(\d+)-slim", FILES["Dockerfile"], re.MULTILINE)
    least = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert int(version) >= int(least.removeprefix(">=3."))


def test_the_container_writes_to_its_volume_alone_as_nobody_in_particular() -> None:
    [volume] = instructions("VOLUME")
    assert IMAGE["DRAFTGAUGE_DATA"] == volume
    assert all(IMAGE[name].startswith((f"{volume}/", "/tmp")) for name in IMAGE if name.endswith(("HOME", "_DIR")))
    assert all(IMAGE[name].startswith(f"{volume}/") for name in ("HF_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME"))
    [user] = instructions("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert f"--uid {user.split(':')[0]} " in FILES["Dockerfile"]
    assert compose()["volumes"] == [f"data:{volume}"]
    assert (compose()["read_only"], compose()["cap_drop"], compose()["security_opt"]) == (True, ["ALL"], ["no-new-privileges:true"])
    assert compose()["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert [folder.split(":")[0] for folder in compose()["tmpfs"]] == ["/tmp"]


def test_the_service_writes_to_its_state_alone() -> None:
    [state], [runtime] = unit("StateDirectory"), unit("RuntimeDirectory")
    assert SERVICE["DRAFTGAUGE_DATA"] == SERVICE["HOME"] == f"/var/lib/{state}"
    assert SERVICE["HF_HOME"].startswith(f"/var/lib/{state}/")
    assert SERVICE["XDG_RUNTIME_DIR"] == f"/run/{runtime}"
    assert (unit("ProtectSystem"), unit("ReadWritePaths"), unit("CapabilityBoundingSet")) == (["strict"], [], [""])
    assert unit("User") != ["root"]


def test_a_server_is_given_the_time_that_its_workers_may_take_to_end() -> None:
    [patience] = unit("TimeoutStopSec")
    assert int(patience) >= MOST_DEVICES * station.STOP_PATIENCE_S + server.LINGER_S + 5
    assert compose()["stop_grace_period"] == f"{patience}s"
    assert f"--stop-timeout {patience}" in FILES["README.md"]
    assert f"at most {server.LINGER_S} seconds for browsers and {station.STOP_PATIENCE_S:g} for each device" in FILES["README.md"]
    assert f"at most {server.LINGER_S} seconds for browsers, {station.STOP_PATIENCE_S:g} for each device" in FILES["draftgauge.service"]
    assert (unit("KillMode"), unit("OOMPolicy")) == (["mixed"], ["continue"]), "workers are ended by their server, and one of them alone"


def test_neither_asks_the_internet_for_its_address_nor_prints_a_banner() -> None:
    """Streamlit does both at its start where it listens to all and nobody looks at the terminal."""
    for environment in (IMAGE, SERVICE):
        assert environment["STREAMLIT_LOGGER_HIDE_WELCOME_MESSAGE"] == environment["STREAMLIT_SERVER_HEADLESS"] == "true"


def test_the_proxy_passes_streamlits_paths_and_its_sizes() -> None:
    paths = ["= /" + routes.ROUTE_HEALTH, "= /" + routes.ROUTE_HOST_CONFIG, "= /_stcore/stream", f"/{routes.BASE_ROUTE_UPLOAD_FILE}/", "/"]
    assert all("proxy_pass http://draftgauge;" in location(path) for path in paths)
    assert all("return 404;" in location(path) for path in ("= /ready", "/_stcore/"))
    assert f"client_max_body_size {UPLOAD_MB + 1}m;" in location(f"/{routes.BASE_ROUTE_UPLOAD_FILE}/")
    [patience] = re.findall(r"proxy_read_timeout (\d+)s;", location("= /_stcore/stream"))
    assert int(patience) > 2 * DEFAULT_WEBSOCKET_PING_INTERVAL


def test_the_readme_says_the_same_numbers_and_names_every_file() -> None:
    text = FILES["README.md"]
    assert f"| {UPLOAD_MB + 1} MB for `/{routes.BASE_ROUTE_UPLOAD_FILE}`, 1 MB elsewhere | uploads end at {UPLOAD_MB} MB |" in text
    assert f"the app pings every {DEFAULT_WEBSOCKET_PING_INTERVAL} seconds" in text
    assert f"`MemoryMax` is {unit('MemoryMax')[0].replace('%', ' %')} of the machine" in text
    assert [name for name in FILES if name not in text and name not in ("README.md", "Dockerfile.dockerignore")] == []
    linked = [name.partition("#")[0] for name in re.findall(r"\]\(([^)]+)\)", text)]
    assert [name for name in linked if not (FOLDER / name).exists()] == []
    assert [name for name in re.findall(r"`(tests/\w+\.py)`", text) if not (ROOT / name).exists()] == []

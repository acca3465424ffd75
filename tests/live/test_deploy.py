"""The files for those who deploy it: what they name is there, as far as that can be seen without a cluster."""

import re
import shlex
import shutil
import sqlite3
import subprocess
import tomllib
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from clickbandit.live import Ranker
from clickbandit.live.http.endpoints import ENDPOINTS
from clickbandit.live.http.server import _PATIENCE
from clickbandit.live.settings import ServiceSettings, options, read_settings

FOLDER = Path(__file__).parents[2] / "deploy"
GUIDE = (FOLDER.parent / "docs" / "deploy.md").read_text(encoding="utf-8")
ITEMS = list("ABCDEF")
PATHS = {endpoint.path for endpoint in ENDPOINTS}
NAMES = {option.name for option in options()}


def read(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def settings_of(arguments):
    """The settings that `clickbandit serve` would have."""
    given = {}
    words = iter(arguments)
    for word in words:
        assert word.startswith("--"), word
        given[word[2:].replace("-", "_")] = next(words)
    given.pop("config", None)
    assert given.keys() <= NAMES
    return given


def check_variables(names):
    own = [name.removeprefix("CLICKBANDIT_").lower() for name in names if name.startswith("CLICKBANDIT_")]
    assert own
    assert set(own) <= NAMES | {"api_keys"}


def test_the_guide_names_every_file_and_they_are_there():
    named = set(re.findall(r"\(\.\./deploy/([\w.]+)\)", GUIDE))
    assert named == {path.name for path in FOLDER.iterdir()}


def test_dockerfile():
    text = read("Dockerfile").replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    last = [instruction for instruction, _ in lines].index("FROM", 1)
    assert [rest for instruction, rest in lines[last:] if instruction == "USER"] == ["10001"]
    (health,) = [rest for instruction, rest in lines if instruction == "HEALTHCHECK"]
    assert set(re.findall(r"127\.0\.0\.1:8000(/\w+)", health)) <= PATHS
    check_variables(re.findall(r"(\w+)=\S+", dict(lines)["ENV"]))
    for instruction, rest in lines[:last]:
        if instruction == "COPY":
            assert all((FOLDER.parent / source).exists() for source in rest.split()[:-1])
    extras = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.search(r"\.\[([\w,]+)\]", text)[1].split(",")) <= extras.keys()
    assert dict(lines)["ENTRYPOINT"] == '["clickbandit", "serve"]'


def test_compose():
    composed = yaml.safe_load(read("compose.yaml"))
    service = composed["services"]["clickbandit"]
    given = settings_of(service["command"])
    ServiceSettings(store=service["environment"]["CLICKBANDIT_STORE"], workers=int(given["workers"]))
    check_variables(service["environment"])
    assert set(service["secrets"]) <= composed["secrets"].keys()
    assert (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    assert seconds(service["stop_grace_period"]) > seconds(given["drain"]) + _PATIENCE
    assert service["read_only"]


def seconds(text):
    return float(text.removesuffix("s"))


def test_kubernetes():
    deployment, service, budget = yaml.safe_load_all(read("kubernetes.yaml"))
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    given = settings_of(container["args"])
    check_variables(variable["name"] for variable in container["env"])
    for probe, path in (
        ("startupProbe", "/livez"),
        ("livenessProbe", "/livez"),
        ("readinessProbe", "/readyz"),
    ):
        assert container[probe]["httpGet"] == {"path": path, "port": "http"}
        assert path in PATHS
    pause = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert spec["terminationGracePeriodSeconds"] > pause + seconds(given["drain"]) + _PATIENCE
    assert spec["securityContext"]["runAsNonRoot"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["volumes"]}
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels == service["spec"]["selector"] == budget["spec"]["selector"]["matchLabels"]
    assert deployment["spec"]["template"]["metadata"]["annotations"]["prometheus.io/path"] in PATHS


def test_systemd(tmp_path):
    text = read("clickbandit.service")
    command = shlex.split(re.search(r"^ExecStart=(.*)$", text, flags=re.M)[1])
    given = settings_of(command[2:])
    check_variables(re.findall(r"^Environment=(\w+)=", text, flags=re.M))
    assert float(re.search(r"TimeoutStopSec=(\d+)", text)[1]) > seconds(given["drain"]) + _PATIENCE
    settings = tomllib.loads(read("clickbandit.toml"))
    assert settings.keys() <= NAMES
    assert read_settings({}, FOLDER / "clickbandit.toml").positions == settings["positions"]
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not there: it belongs to Debian's package systemd")
    unit = tmp_path / "clickbandit.service"
    unit.write_text(text.replace(command[0], "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if "clickbandit.service" in line]
    assert complaints == []


def test_nginx_lets_through_what_the_service_takes():
    text = read("nginx.conf")
    assert text.count("{") == text.count("}")
    assert set(re.findall(r"location = (\S+)", text)) <= PATHS
    assert "client_max_body_size 2m;" in text
    assert re.search(r"server 127\.0\.0\.1:8000\b", text)


def test_alerts_are_about_metrics_that_are_there(open_service):
    service = open_service({"holdout": 0.5})
    for k in range(140):
        item = service.rank(id=str(k))["items"][0]["id"]
        service.events({"id": str(k) if k % 2 else "none", "item": item})
        service.post(f"/v1/impressions/{k}/settle")
    text = service.get("/metrics").body.decode()
    there = set(re.findall(r"^(clickbandit_\w+)(?=[ {])", text, flags=re.M))
    labels = dict(re.findall(r"^(clickbandit_\w+)\{(\w+)=", text, flags=re.M))
    rules = yaml.safe_load(read("alerts.yaml"))["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 10
    for rule in rules:
        used = re.findall(r"(clickbandit_\w+)(?:\{(\w+)=)?", rule["expr"])
        assert used
        for name, label in used:
            assert name in there, rule
            assert not label or re.search(rf"^{name}\{{[^}}]*\b{label}=", text, flags=re.M), (rule, labels)
        assert rule["expr"].count("(") == rule["expr"].count(")")
    assert set(re.findall(r"`(clickbandit_\w+)`", GUIDE)) <= there


def test_how_far_behind_settlement_is(open_service, clock, monkeypatch):
    service = open_service()
    service.rank()
    behind = re.compile(r"^clickbandit_overdue_seconds (\S+)$", re.M)
    assert float(behind.search(service.get("/metrics").body.decode())[1]) == 0
    store = service.service.api.ranker._store
    monkeypatch.setattr(store, "take_due", lambda *given: [])
    clock.now += 1800 + 90
    assert float(behind.search(service.get("/metrics").body.decode())[1]) == pytest.approx(90, abs=1)


def test_a_backup_that_is_taken_while_it_serves(folder):
    """The statement of the guide, on a store in use; what is restored knows all that was known."""
    (statement,) = re.findall(r"VACUUM INTO '(\S+)'", GUIDE)
    copy = folder / "backup" / Path(statement).name
    copy.parent.mkdir()
    with Ranker(f"sqlite:///{folder}/clicks.db", policy="random", positions=3) as ranker:
        shown = ranker.rank("shoes", ITEMS, id="x")
        ranker.click("x", shown.items[0])
        with closing(sqlite3.connect(folder / "clicks.db")) as file:
            file.execute(f"vacuum into '{copy}'")
        ranker.rank("shoes", ITEMS)
    with Ranker(f"sqlite:///{copy}", policy="random", positions=3) as restored:
        assert restored.rank("shoes", ITEMS, id="x").items == shown.items
        assert restored.settle("x").clicked == shown.items[:1]
        assert restored.verify("shoes")
        assert restored.stats().impressions == 1

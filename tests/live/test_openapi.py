"""The OpenAPI document is true: what it promises is kept, and nothing happens that it does not say."""

import subprocess

import pytest

from clickbandit.live import AsyncRanker
from clickbandit.live.http import service as service_module
from clickbandit.live.http.auth import Keys
from clickbandit.live.http.endpoints import ENDPOINTS
from clickbandit.live.stores.rows import SILENT_AFTER, STUCK_AFTER
from live import fuzz
from live.serving import serve

KEY = "correct-horse-battery"
STREAM = "/v1/stream"
"""It has no end, so it has a test of its own."""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('openapi')}/clicks.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service_module, "_WRONG_KEYS", 1e6)  # schemathesis tries many, and wants to be told
        with serve(AsyncRanker(url, policy="random", positions=3), keys=Keys([KEY])) as served:
            yield served


def references(part):
    if isinstance(part, dict):
        yield from ([part["$ref"]] if "$ref" in part else [])
        part = list(part.values())
    if isinstance(part, list):
        for entry in part:
            yield from references(entry)


def test_everything_is_described(service):
    document = service.get("/openapi.json").json
    described = {(method, path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(endpoint.method.lower(), endpoint.path) for endpoint in ENDPOINTS}
    schemas = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) == schemas
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["summary"].endswith(".")
            for status, answer in operation["responses"].items():
                kinds = set(answer["content"])
                assert (kinds == {"application/problem+json"}) == (status != "200")


def test_schemathesis_finds_nothing(service, tmp_path):
    """No server error, no answer that is not described, no wrong request that is taken, no right one that is refused,
    no key that is not needed. See `fuzz`."""
    key = {"authorization": f"Bearer {KEY}"}
    for name in ("0", "00", "000"):  # so that what it makes up is sometimes there
        for query in ({"query": name}, {"query": "one that is not deleted", "id": name}):
            assert service.post("/v1/rank", {"items": ["0"], **query}, **key).status == 200
    (tmp_path / "schemathesis.toml").write_text(fuzz.CONFIG)
    command = fuzz.command(service.url, 10, 1, "--header", f"Authorization: Bearer {KEY}")
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Tested: {len(ENDPOINTS) - 2}\n" in done.stdout  # all but the document itself and the stream
    metrics = service.get("/metrics", **key).body.decode()
    for endpoint in (endpoint for endpoint in ENDPOINTS if endpoint.path != STREAM):  # it got past the door
        passed = (
            ("200", "409") if endpoint.path.endswith("/void") else ("200",)
        )  # what is settled cannot be void
        counted = [
            f'clickbandit_requests_total{{endpoint="{endpoint.path}",status="{code}"}}' for code in passed
        ]
        assert any(count in metrics for count in counted), endpoint
    assert "clickbandit_failures_total 0.0" in metrics


def test_values_are_described_by_the_text_under_their_fields(service):
    schemas = service.get("/openapi.json").json["components"]["schemas"]
    assert schemas["QueryDetail"]["properties"]["best"]["description"].startswith(
        "The list that it would show"
    )
    said = schemas["QuerySummary"]["properties"]["state"]["description"]
    assert f"last {STUCK_AFTER} impressions, or from {SILENT_AFTER:,} without" in said

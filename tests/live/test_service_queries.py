"""Queries over HTTP, by any name."""

from urllib.parse import quote

import pytest

ITEMS = list("ABCDEF")


ODD = [
    "red shoes",
    "a/b",
    "/",
    "freeze",
    "x/freeze",
    "..",
    ".",
    "%2F",
    "100%",
    "a?b=c&d",
    "#",
    "a+b",
    "Schuhe größe 42",
    "\N{GRINNING FACE}",
    "\n\t\x01\x7f",
    '"\\',
    "x" * 1000,
]


@pytest.mark.parametrize("name", ODD)
def test_queries_have_any_names(standing, name):
    standing.rank(name)
    path = f"/v1/queries/{quote(name, safe='')}"
    assert standing.get(path).json["summary"]["query"] == name
    assert standing.post(f"{path}/freeze").json["query"] == name
    assert standing.get(f"/v1/queries?search={quote(name, safe='')}").json["queries"][0]["query"] == name


def test_names_that_cannot_be(standing):
    for path in ("/v1/queries/%FF", "/v1/queries/a%ED%A0%80"):
        answer = standing.get(path)
        assert answer.status == 404
        assert "must be UTF-8" in answer.detail
    assert standing.get("/v1/queries/").status == 422
    assert standing.get("/v1/queries/a%00b").status == 422
    assert standing.get("/v1/queries/" + "x" * 1001).status == 422
    assert standing.get("/v1/queries/none").status == 404


def test_what_was_learned(open_service):
    service = open_service({"policy": "batchrank"})
    service.rank(id="x")
    service.post("/v1/impressions/x/settle")
    detail = service.get("/v1/queries/shoes").json
    assert detail["summary"]["learned"] == 1
    assert detail["summary"]["pending"] == 0
    assert detail["items"] == ITEMS
    assert len(detail["best"]) == 3
    assert detail["generation"] == 1
    assert detail["holdout"] is None
    assert service.post("/v1/queries/shoes/verify").json == {"verified": True}


def test_pages_of_queries(service):
    for k, name in enumerate(["b", "a", "Shoes", "red shoes"]):
        for _ in range(k + 1):
            service.rank(name)
    page = service.get("/v1/queries").json
    assert [query["query"] for query in page["queries"]] == ["Shoes", "a", "b", "red shoes"]
    assert page["total"] == 4
    page = service.get("/v1/queries?sort=impressions&descending=true&limit=2&offset=1").json
    assert [query["query"] for query in page["queries"]] == ["Shoes", "a"]
    assert page["total"] == 4
    assert service.get("/v1/queries?search=SHOES").json["total"] == 2
    assert service.get("/v1/queries?search=&offset=9007199254740992").json == {"queries": [], "total": 4}


@pytest.mark.parametrize(
    "parameters",
    [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=",
        "offset=-1",
        "offset=9007199254740993",
        "sort=colour",
        "descending=maybe",
        "colour=red",
        "search=a&search=b",
        "search=%FF",
        "search=%00",
        "&".join(f"x{i}=1" for i in range(30)),
    ],
)
def test_wrong_parameters_are_explained(standing, parameters):
    answer = standing.get(f"/v1/queries?{parameters}")
    assert answer.status == 422
    assert "parameter" in answer.detail or "must be" in answer.detail


def test_parameters_where_there_are_none(standing):
    answer = standing.post("/v1/rank?positions=3", {"query": "q", "items": ITEMS})
    assert answer.status == 422
    assert "takes no parameters" in answer.detail


def test_freeze_unfreeze_and_reset(service):
    service.rank()
    assert service.post("/v1/queries/shoes/freeze").json["frozen"] is True
    assert service.rank()["source"] == "frozen"
    assert service.post("/v1/queries/shoes/unfreeze").json["frozen"] is False
    assert service.rank()["source"] == "policy"
    reset = service.post(
        "/v1/queries/shoes/reset", {"policy": "batchrank", "positions": 2, "horizon": 5000, "window": "1h"}
    )
    assert reset.json["policy"] == "batchrank"
    assert reset.json["positions"] == 2
    assert reset.json["horizon"] == 5000
    answer = service.rank()
    assert len(answer["items"]) == 2
    assert answer["expires_at"] == "2023-11-14T23:13:20Z"
    assert service.post("/v1/queries/shoes/reset").json["policy"] == "random"
    assert service.post("/v1/queries/new/reset", {}).json["query"] == "new"
    for what in ("freeze", "unfreeze", "verify"):
        assert service.post(f"/v1/queries/none/{what}").status == 404


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"policy": "batchrak"}, "did you mean batchrank?"),
        ({"policy": "batchrank:x=1"}, "there is no setting 'x'"),
        ({"policy": "optimal"}, "which only a simulation knows"),
        ({"policy": "examples/my_policy.py:EpsilonGreedy"}, "over HTTP"),
        ({"positions": 0}, "from 1 to 50"),
        ({"horizon": 1}, "from 5 to"),
        ({"window": "soon"}, "window must be"),
        ({"window": "8d"}, "retention must be at least as long"),
        ({"window": [1]}, "Expected"),
        ({"colour": 1}, "unknown field"),
    ],
)
def test_a_wrong_reset_is_explained(standing, body, says):
    answer = standing.post("/v1/queries/not%20reset/reset", body)
    assert answer.status == 422
    assert says in answer.detail
    assert standing.get("/v1/queries/not%20reset").status == 404


def test_stats(service):
    service.rank(id="x")
    service.events({"id": "x", "item": "Z"})
    stats = service.get("/v1/stats").json
    assert stats["impressions"] == 1
    assert stats["ranked"] == {"policy": 1}
    assert stats["events"] == {"invalid": 1}

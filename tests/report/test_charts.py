"""Every chart compiles, shows what it should, and leaves no garbage where the regret is zero."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
import vl_convert as vlc

from clickbandit.errors import InputError
from clickbandit.report.charts import (
    END_TOOLTIP,
    LIVE,
    REGRET_TOOLTIP,
    Chart,
    end_panel,
    end_rows,
    live,
    log_range,
    mean_curves,
    regret_chart,
    regret_panel,
)
from clickbandit.report.styles import looks
from report.results import made_up


def _panels(table: pa.Table) -> list[dict]:
    look = looks(table["policy"].unique().to_pylist())
    model = table["model"][0].as_py()
    regret = regret_panel(
        [row for row in mean_curves(table) if row["model"] == model], look, f"{model}: regret"
    )
    end = end_panel([row for row in end_rows(table) if row["model"] == model], look, "the end")
    return [regret, end, live(regret, REGRET_TOOLTIP), live(end, END_TOOLTIP)]


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"runs": 1},
        {"windows": 1},
        {"policies": ["batchrank"], "models": ["DBN"], "queries": ["q"], "runs": 1},
        {"policies": [f"mine.py:Policy{i}" for i in range(25)], "queries": ["a"]},
        {"policies": ['<b>"\\'], "models": ["A.B[0]"]},
    ],
)
def test_charts_compile_without_a_warning(odd: dict, capfd: pytest.CaptureFixture[str]) -> None:
    for panel in _panels(made_up(**odd)):
        vega = vlc.vegalite_to_vega({**panel, "config": LIVE}, show_warnings=True)
        assert capfd.readouterr().err == ""
        assert {mark["type"] for mark in vega["marks"]} & {"group", "line"}


def test_zero_is_below_the_picture_and_nothing_else_is_changed() -> None:
    table = made_up()
    regret = _panels(table)[0]
    low, high = regret["layer"][-1]["encoding"]["y"]["scale"]["domain"]
    rows = {(row["policy"], row["step"]): row for row in mean_curves(table) if row["model"] == "CM"}
    names = {one.name: policy for policy, one in looks(table["policy"].unique().to_pylist()).items()}
    n_zero = 0
    for value in regret["data"]["values"]:
        row = rows[names[value["name"]], value["step"]]
        if row["mean"] == 0:
            n_zero += 1
            assert value["mean"] == value["low"] == value["high"] == low / 10
        else:
            assert low <= value["mean"] <= high
            assert value["mean"] == pytest.approx(row["mean"], rel=1e-3)
            assert value["high"] == pytest.approx(row["high"], rel=1e-3)
    assert n_zero == 10
    assert all(layer["mark"]["clip"] for layer in regret["layer"])
    svg = vlc.vegalite_to_svg({"width": 300, "height": 200, **regret})
    assert "NaN" not in svg
    assert "Infinity" not in svg


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0], (0.1, 1.0)),
        ([], (0.1, 1.0)),
        ([0.003, 0.19], (0.002, 0.2)),
        ([1e-12, 0.5], (0.05, 0.5)),
        ([0.1], (0.01, 0.1)),
        ([3e4, 7e6], (2e4, 1e7)),
    ],
)
def test_ranges_are_round(values: list[float], expected: tuple[float, float]) -> None:
    assert log_range(values) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("span", "some", "none"),
    [
        ((1e-2, 1), {"1e-2", "1e-1", "1"}, {"2e-2", "5e-1"}),
        ((2e-2, 1), {"2e-2", "5e-2", "1e-1", "1"}, {"3e-2", "9e-1"}),
        ((1e-5, 1), {"1e-5", "1e-4", "1e-3", "1e-2", "1e-1", "1"}, {"2e-2"}),
    ],
)
def test_axes_have_labels_at_powers_of_ten_and_between_them_if_these_are_few(
    span: tuple[float, float], some: set[str], none: set[str]
) -> None:
    rows = [row for row in mean_curves(made_up()) if row["model"] == "CM"]
    panel = regret_panel(rows, looks(row["policy"] for row in rows), "", span)
    svg = vlc.vegalite_to_svg({"width": 300, "height": 200, **panel})
    labels = set(re.findall(r">(\d[^<]*)</text>", svg))
    assert some <= labels
    assert not none & labels
    assert {"0", "10k", "20k"} <= labels
    assert "0k" not in labels


def test_a_notebook_gets_a_chart_with_a_legend() -> None:
    chart = regret_chart(made_up())
    assert [panel["title"] for panel in chart.spec["hconcat"]] == ["CM", "PBM"]
    svg = chart._repr_svg_()
    for name in ("BatchRank (printed)", "RankedExp3", "regret per step, in clicks"):
        assert f">{name}<" in svg


@pytest.mark.parametrize(
    ("kind", "begins"),
    [("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")],
)
def test_a_chart_saves_in_the_format_of_its_name(kind: str, begins: bytes, tmp_path: Path) -> None:
    chart = Chart({"data": {"values": [{"x": 1}]}, "mark": "point", "encoding": {"x": {"field": "x"}}})
    chart.save(tmp_path / f"chart.{kind}")
    assert (tmp_path / f"chart.{kind}").read_bytes().lstrip().startswith(begins)


def test_a_chart_of_another_format_is_refused() -> None:
    with pytest.raises(InputError, match=r"to end in \.svg, \.png, \.pdf, \.html, found 'chart\.gif'"):
        Chart({}).save("chart.gif")

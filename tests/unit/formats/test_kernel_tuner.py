"""Kernel Tuner's own schema, reader and simulator accept the files."""

import json
from pathlib import Path

import jsonschema
import kernel_tuner
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_tuner import file_utils, util

from kernelzoo.errors import InvalidInput
from kernelzoo.formats import kernel_tuner as ours
from tests.unit.formats.examples import CLASS, K0, results


def test_t4_results_fit_the_schema_of_kernel_tuner() -> None:
    version, schema = file_utils.output_file_schema("results")
    document = json.loads(ours.t4(results()))
    jsonschema.validate(document, schema)
    assert document["schema_version"] == version
    assert [trial["invalidity"] for trial in document["results"]] == [
        *["correct"] * 3,
        *["compile", "compile", "runtime", "correctness", "timeout"],
    ]
    assert document["results"][0]["measurements"] == [
        {"name": "time", "value": pytest.approx(7.1), "unit": "ms"}
    ]


def test_t4_results_of_kernel_tuner_itself_are_read() -> None:
    names = ("compile_time", "benchmark_time", "framework_time", "strategy_time")
    overheads = dict.fromkeys((*names, "verification_time"), 0.0)
    theirs = [
        {"block_size_x": 128, "tile": 2, "time": 1.5, "times": [1.5], **overheads},
        {"block_size_x": 256, "tile": 2, "time": "x", "__error__": util.RuntimeFailedConfig()}
        | overheads,
    ]
    written = file_utils.get_t4_results(theirs, {"block_size_x": [128, 256], "tile": [2]})
    (claim,) = ours.read_t4(json.dumps(written))
    assert (claim.config, claim.time) == ((("block_size_x", 128), ("tile", 2)), 1.5)
    assert (claim.workload_key, claim.device) == ("", "")


def test_the_cache_is_read_by_kernel_tuner(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    path.write_text(ours.cache(results()))
    cache = util.read_cache(str(path), open_cache=False)
    assert (cache["kernel_name"], cache["device_name"]) == (K0.key, CLASS)
    errors = [type(entry.get("__error__")).__name__ for entry in cache["cache"].values()]
    assert errors == [
        *["NoneType"] * 3,
        *["CompilationFailedConfig"] * 2,
        *["RuntimeFailedConfig"] * 3,
    ]


def test_kernel_tuner_replays_the_cache_and_finds_our_winner(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    path.write_text(ours.cache(results()))
    cache = util.read_cache(str(path), open_cache=False)
    measured = " or ".join(
        f"({' and '.join(f'{name} == {value!r}' for name, value in trial.config)})"
        for trial in results().trials
    )
    found, _ = kernel_tuner.tune_kernel(
        K0.key,
        "kernel source is not looked at",
        K0.extents,
        [],
        cache["tune_params"],
        restrictions=[measured],
        cache=str(path),
        simulation_mode=True,
        lang="C",
        quiet=True,
    )
    ran = [each for each in found if "__error__" not in each]
    assert (len(ran), len(found)) == (3, 8)
    best = min(ran, key=lambda each: each["time"])
    assert best["time"] == pytest.approx(6.2)
    assert {name: best[name] for name in cache["tune_params"]} == dict(results().trials[1].config)


@pytest.mark.parametrize("form", ["t4", "cache"])
def test_what_we_write_we_read_without_being_told(form: str) -> None:
    read, write = {
        "t4": (ours.read_t4, ours.t4),
        "cache": (ours.read_cache, ours.cache),
    }[form]
    claims = read(write(results()))
    assert [claim.config for claim in claims] == [t.config for t in results().trials[:3]]
    assert {claim.workload_key for claim in claims} == {K0.key}
    assert [claim.time for claim in claims] == pytest.approx([7.1, 6.2, 9.0])


def test_a_cache_that_was_broken_off_is_read() -> None:
    whole = ours.cache(results())
    entry = whole.index('"compile_time"', whole.index('"cache": {'))
    broken = whole[: whole.index("},", entry) + 2]
    assert len(ours.read_cache(broken)) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("results", "configuration", "invalidity", "measurements", "cache", "name"),
                    *("tune_params_keys", "version", "config", "tunable_parameters", "value", "a"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_file_from_outside_ends_a_reader_but_by_a_refusal(document: object) -> None:
    text = json.dumps(document)
    for read in (ours.read_t4, ours.read_cache):
        try:
            read(text)
        except InvalidInput:
            continue


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "no JSON"),
        ("{}", "results must be a list"),
        ('{"results": [3]}', "a result must be an object"),
        (" " * ((16 << 20) + 1), "import it in parts"),
        (
            json.dumps(
                {
                    "results": [
                        {
                            "invalidity": "correct",
                            "configuration": {"a b": 1},
                            "measurements": [{"name": "time", "value": 1}],
                        }
                    ]
                }
            ),
            "'a b' is no name",
        ),
    ],
)
def test_a_refusal_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        ours.read_t4(text)

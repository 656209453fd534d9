"""The weights of decoders that are made on the machine where a page of them is served."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.models.decode_site import USUAL, fill, plan_without_golden
from bench.models.decoders import CASES, TINY
from bench.models.gpu_site import ZOO
from kernelzoo.domain.dtype import DType
from kernelzoo.formats.plans import plan_document


@pytest.mark.parametrize("cache", [DType.F32, DType.F16])
def test_what_was_exported_without_weights_is_filled_with_the_plan_of_its_cache(
    tmp_path: Path, cache: DType
) -> None:
    case = replace(CASES[TINY], config=replace(CASES[TINY].config, cache=cache))
    plan, _ = plan_without_golden(TINY, case)
    answered = tmp_path / ZOO / f"{TINY}.json"
    answered.parent.mkdir()
    answered.write_text(json.dumps({"plan": plan_document(plan)}))
    told = fill(tmp_path, {"name": TINY, "cache": cache}, USUAL)
    answer = json.loads(answered.read_text())
    assert {state["dtype"] for state in answer["plan"]["states"][3:]} == {cache}
    assert (tmp_path / told["logits"]).stat().st_size == 4 * case.config.vocabulary
    assert len(told["prompt"]) > 1
    assert (tmp_path / f"{TINY}.onnx").is_file()

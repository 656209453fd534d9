"""A model that is tuned in its page, by a host whose candidates are not all what they should be."""

from collections.abc import Iterator
from struct import pack
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from fixtures.model_site import SiteKernels, described
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compile_candidate
from services.tuner.schedules.registry import lite_space
from tests.browser.candidate_queue import GOLDEN, Queue, QueueHandler
from tests.browser.model_host import evaluated, hosting, lists
from tests.browser.model_plans import deep
from tests.browser.sites import ISOLATED, site
from tests.browser.wasm_code import HANG, STOP, TRAP, at_first, counting, filling

NETWORK = deep(layers=2, rows=64, width=128)
KEY = NETWORK.plan.kernels[0]
SPACE = lite_space(Workload.parse(KEY), TargetKind.WASM)
FUSED = [each for each in SPACE if "relaxed-simd" in each.requires]
"""Two operations in one instruction: about twice as fast."""
SLOW = [each for each in SPACE if "relaxed-simd" not in each.requires][-1]
ROW = 6
"""Candidates that are measured in a row."""
WINNERS = FUSED[3:6]
"""Either may win: on a busy machine one of them may not be optimised before it is timed."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    made = Queue(tmp_path_factory.mktemp("tuning"))
    delayed = at_first(SLOW, DELAY)
    made.write(NETWORK, **{KEY: SiteKernels(candidate=SLOW, fallback=SLOW, body=delayed)})
    with hosting(made, QueueHandler):
        yield made


@pytest.fixture
def page(lone_browser: Browser) -> Iterator[Page]:
    with site(ISOLATED) as address, lone_browser.new_context() as context:
        opened = context.new_page()
        opened.goto(address)
        yield opened


FEEDS = lists({"x": NETWORK.feeds["x"], "y": NETWORK.outputs["y"]})


def tune(page: Page, host: Queue, function: str, *given: object) -> Any:
    return evaluated(page, host, "tuning", function, FEEDS, *given)


DELAY = counting(2_000_000)
"""Others are faster, in code that is not optimised as well, whatever else the machine does."""
HALF_DELAY = counting(1_000_000)
RARE = 123.0
"""It is that of pages/tuning.js."""


def packs_of(candidate: Candidate) -> set[str]:
    """Artifacts of its pack kernels."""
    parts: dict[str, Artifact] = {}
    own = described(candidate, None, parts)["sha256"]
    return parts.keys() - {own}


def if_first(entry: float, code: bytes) -> bytes:
    """`code` where the first entry of the first input is this."""
    return b"\x20\0\x2a\2\0\x43" + pack("<f", entry) + b"\x5b\x04\x40" + code + b"\x0b"


def subtracting(candidate: Candidate) -> bytes:
    """It subtracts one product of many instead of adding it."""
    body = compile_candidate(candidate).body
    head, tail = body.rsplit(b"\xfd\x85\2", 1)
    return head + b"\xfd\x86\2" + tail


def test_kernels_that_trap_hang_or_are_wrong_are_passed_over_and_the_winner_is_kept(
    page: Page, host: Queue
) -> None:
    host.offer(
        (FUSED[0], at_first(FUSED[0], TRAP)),
        (FUSED[1], at_first(FUSED[1], HANG)),
        (FUSED[2], subtracting(FUSED[2])),
        *((each, None) for each in WINNERS),
    )
    found = tune(page, host, "twoVisits")
    winner = found["before"]["candidate"]
    assert winner in [each.candidate_id for each in WINNERS]
    assert found["worst"] < 1e-4
    again = found["proven"]["candidate"]
    assert found["heard"] == [["swap", winner], ["swap", again]], "once found, and once again"
    before, after, unproven, proven = (
        found[each] for each in ("before", "after", "unproven", "proven")
    )
    assert (before["level"], before["candidate"]) == ("page", winner)
    assert before["measured"] >= 4, "in vain the first three"
    assert before["reason"] == "There are no more candidates."
    assert len(before["asked"]) == before["requests"] == 2, "again by the worker that was ended"
    assert (after["level"], after["candidate"]) == ("page", winner), "from its first run on"
    assert (unproven["level"], proven["level"]) == ("default", "page")
    assert host.told == [], "nothing is told to the zoo"


@pytest.mark.parametrize(
    ("code", "reason", "threads"),
    [
        pytest.param(TRAP, "trapped", 1, marks=pytest.mark.slow),
        (TRAP, "trapped", 2),
        (STOP, "disagrees", 2),
    ],
)
def test_a_kernel_that_is_wrong_for_few_inputs_is_taken_back_in_that_inference(
    page: Page, host: Queue, code: bytes, reason: str, threads: int
) -> None:
    host.offer(*((each, at_first(each, if_first(RARE, code))) for each in WINNERS))
    found = tune(page, host, "rarelyWrong", threads)
    assert found["threads"] == threads
    assert [what for what, *_ in found["heard"]] == ["swap", "regression"], found["after"]
    assert reason in found["heard"][1][2]
    assert found["worst"] < 1e-4
    assert found["agree"], "the inference in which it was found out is right"
    assert code != TRAP or found["runs"] == 1, "what does not trap is found by samples"
    assert found["after"]["level"] == "default"


OUTPUT = len(NETWORK.plan.calls[0].tensors) - 1
RARELY_WRONG = if_first(RARE, filling(OUTPUT, NETWORK.outputs["y"].nbytes) + STOP)


@pytest.mark.parametrize("wrong", ["the first", "the second"])
def test_of_two_kernels_that_follow_each_other_the_one_is_taken_back_that_is_wrong(
    page: Page, host: Queue, wrong: str
) -> None:
    """Both are compared with the zoo's; what was right is found again where that has to run."""
    first, *others, second = FUSED[: ROW + 1]
    fault, none = RARELY_WRONG, b""
    early, late = (fault, none) if wrong == "the first" else (none, fault)
    host.offer(
        (first, at_first(first, HALF_DELAY + early)),
        *((each, at_first(each, TRAP)) for each in others),
        (second, at_first(second, late)),
    )
    one, two = first.candidate_id, second.candidate_id
    expected = [["swap", one], ["swap", two]]
    if wrong == "the second":
        expected += [["regression", two], ["swap", one]]
    found = tune(page, host, "twoInARow", len(expected))
    assert [each[:2] for each in found["heard"]] == expected, found
    runs = first if wrong == "the second" else second
    assert (found["after"]["level"], found["after"]["candidate"]) == ("page", runs.candidate_id)
    assert found["agree"]


@pytest.mark.parametrize("early", [True, False], ids=["in the first", "in the second"])
@pytest.mark.parametrize(("code", "reason"), [(TRAP, "trapped"), (HANG, "did not end")])
def test_a_kernel_that_traps_or_hangs_is_given_up_for_good_in_whichever_visit_it_does(
    page: Page, host: Queue, code: bytes, reason: str, early: bool
) -> None:
    host.offer((WINNERS[0], at_first(WINNERS[0], if_first(RARE, code))))
    found = tune(page, host, "foundOut", early)
    wrong = WINNERS[0].candidate_id
    assert [each[:2] for each in found["heard"]] == [["swap", wrong], ["regression", wrong]]
    assert reason in found["heard"][1][2]
    loaded, after = found["loaded"], found["after"]
    assert (loaded["level"] == "page") != early
    assert (after["level"], after["measured"]) == ("default", 0), "it is not tried again"
    assert found["agree"], "the inference in which it was found out is right"
    assert found["worst"] < 1e-4
    assert host.told == [], "nothing is told to the zoo"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kept_kernel_that_is_silently_wrong_is_found_in_the_visit_that_loads_it(
    page: Page, host: Queue, threads: int
) -> None:
    wrong = WINNERS[0]
    # It takes its time for that, as samples take a share of the time of inferences.
    host.offer((wrong, at_first(wrong, if_first(RARE, HALF_DELAY + STOP))))
    found = tune(page, host, "silentlyWrong", threads)
    loaded, after, following = found["loaded"], found["after"], found["next"]
    assert (loaded["level"], loaded["candidate"]) == ("page", wrong.candidate_id)
    assert [each[:2] for each in found["heard"]] == [
        ["swap", wrong.candidate_id],
        ["regression", wrong.candidate_id],
    ]
    assert "disagrees" in found["heard"][1][2]
    assert found["agree"], "the inference in which it was found out is right"
    assert after["level"] == "default"
    assert (following["level"], following["measured"]) == ("default", 0), "it is not tried again"
    assert found["worst"] < 1e-4
    assert host.told == [], "nothing is told to the zoo"


def test_a_model_that_does_not_load_with_what_is_kept_loads_without_it(
    page: Page, host: Queue
) -> None:
    host.offer((WINNERS[0], None))
    assert tune(page, host, "firstVisit")["level"] == "page"
    kernel = host.lines[0]["candidates"][0]["kernel"]
    (host.zoo / "v1" / "artifacts" / f"{kernel['sha256']}.wasm").unlink()
    found = tune(page, host, "withoutWhatIsKept")
    assert found["loaded"]["level"] == "default"
    assert found["worst"] < 1e-4
    assert found["kept"] == [0], "it is forgotten"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_swap_that_memory_has_no_room_for_is_refused_and_changes_nothing(
    page: Page, host: Queue, threads: int
) -> None:
    host.offer((WINNERS[0], None))
    found = tune(page, host, "noRoom", threads)
    assert found["heard"] == []
    [reason] = found["refused"]
    assert "The browser cannot give 1 MiB to kernels." in reason
    assert found["after"]["level"] == "default"
    assert found["same"], "all calls run what they ran"
    assert found["worst"] < 1e-4


def test_what_wins_alone_but_not_in_the_models_own_runs_does_not_stay(
    page: Page, host: Queue
) -> None:
    """Both are right and fast on the inputs that candidates are compared on."""
    own = float(NETWORK.feeds["x"].flat[0])
    wrong, slow = WINNERS[:2]
    host.offer(
        (wrong, at_first(wrong, if_first(own, STOP))),
        (slow, at_first(slow, if_first(own, 8 * DELAY))),
        cut=True,
    )
    found = tune(page, host, "provenInRuns", 2)
    assert [each[:2] for each in found["heard"]] == [
        ["swap", slow.candidate_id],
        ["regression", slow.candidate_id],
    ], found["after"]
    assert "slower in the model's runs" in found["heard"][1][2]
    assert found["worst"] < 1e-4, "what is wrong on the golden inputs never ran"
    assert found["after"]["level"] == "default"


def test_a_candidate_whose_files_are_missing_keeps_no_other_from_its_turn(
    page: Page, host: Queue
) -> None:
    right, *_ = WINNERS
    [lacking, pack] = next(
        (each, pack) for each in FUSED for pack in packs_of(each) - packs_of(right) - packs_of(SLOW)
    )
    host.offer((lacking, None), (right, None))
    (host.zoo / "v1" / "artifacts" / f"{pack}.wasm").unlink()
    found = tune(page, host, "untilDone")
    after = found["after"]
    assert (after["measured"], after["reason"]) == (2, "There are no more candidates.")
    assert (after["level"], after["candidate"]) == ("page", right.candidate_id)


def test_what_leaves_its_output_out_is_wrong_on_the_golden_inputs_whatever_ran_on_them_before(
    page: Page, host: Queue
) -> None:
    """The last is in a row of its own, after the golden outputs of the first were right."""
    own = float(NETWORK.feeds["x"].flat[0])
    right, *others, wrong = FUSED[: ROW + 1]
    host.offer(
        (right, at_first(right, HALF_DELAY)),
        *((each, at_first(each, TRAP)) for each in others),
        (wrong, at_first(wrong, if_first(own, STOP))),
    )
    found = tune(page, host, "untilDone")
    after = found["after"]
    assert (after["measured"], after["reason"]) == (ROW + 1, "There are no more candidates.")
    assert found["heard"] == [["swap", right.candidate_id]]
    assert (after["level"], after["candidate"]) == ("page", right.candidate_id)


@pytest.mark.slow
@pytest.mark.parametrize("cut", [False, True])
def test_a_winner_that_is_slower_in_the_models_own_runs_gives_way_to_the_next(
    page: Page, host: Queue, cut: bool
) -> None:
    """The first two are right and the fastest on the inputs that candidates are compared on. Where
    the queue is not cut, measuring has ended before they are found out."""
    own = float(NETWORK.feeds["x"].flat[0])
    wrong, slow, stays = WINNERS
    host.offer(
        (wrong, at_first(wrong, if_first(own, STOP))),
        (slow, at_first(slow, if_first(own, 8 * DELAY))),
        (stays, at_first(stays, HALF_DELAY)),
        cut=cut,
    )
    found = tune(page, host, "provenInRuns", 3)
    assert [each[:2] for each in found["heard"]] == [
        ["swap", slow.candidate_id],
        ["regression", slow.candidate_id],
        ["swap", stays.candidate_id],
    ], found["after"]
    assert "slower in the model's runs" in found["heard"][1][2]
    assert found["worst"] < 1e-4, "what is wrong on the golden inputs never ran"
    after = found["after"]
    assert (after["level"], after["candidate"]) == ("page", stays.candidate_id)


def test_tuning_waits_while_anything_pauses_it_outlives_a_zoo_that_is_away_and_has_a_budget(
    page: Page, host: Queue
) -> None:
    host.offer(*((each, None) for each in WINNERS), cut=True)
    found = tune(page, host, "interrupted")
    host.away = ()
    paused, away = found["paused"], found["away"]
    assert [(each["state"], each["measured"]) for each in paused] == 4 * [("paused", 0)]
    for each, reason in zip(paused, ("battery", "busy", "save data", "hidden"), strict=True):
        assert reason in each["reason"]
    assert (away["state"], away["measured"], away["level"]) == ("measuring", 0, "default")
    assert found["worst"] < 1e-4, "runs go on"
    found = tune(page, host, "comeBack")
    after, stopped = found["after"], found["stopped"]
    assert (after["state"], after["level"]) == ("measuring", "page")
    assert after["asked"][1].endswith("after=1"), "from where it broke off"
    assert (stopped["state"], stopped["level"]) == ("done", "page")
    assert len(found["heard"]) == 1
    spent = found["spent"]
    assert (spent["state"], spent["reason"]) == ("done", "The budget of this visit is spent.")
    assert 0 < spent["measured"] <= len(WINNERS), "a row is measured to its end"


def test_a_swap_that_the_zoo_is_away_for_is_made_once_it_answers(page: Page, host: Queue) -> None:
    host.offer(*((each, None) for each in WINNERS), cut=True)
    host.away = (GOLDEN,)
    found = tune(page, host, "postponed")
    host.away = ()
    now = found["now"]
    assert now["reason"].startswith("No answer from"), now
    assert (found["heard"], now["level"]) == ([], "default")
    assert found["worst"] < 1e-4, "runs go on"
    found = tune(page, host, "putOff")
    assert [what for what, *_ in found["heard"]] == ["swap"]
    assert found["after"]["level"] == "page"


def test_the_example_draws_runs_and_kernels_that_took_over(page: Page, host: Queue) -> None:
    host.offer(*((each, None) for each in WINNERS))
    page.set_default_timeout(60_000)
    page.goto(f"{host.url}/examples/tuning/?zoo={host.url}&model={host.url}/deep.json")
    page.wait_for_function("globalThis.kernelzooTuning?.swaps.length > 0")
    page.wait_for_function("document.querySelector('#swaps').textContent.includes('faster')")
    assert "kernels measured" in page.inner_text("#status")
    assert page.evaluate("document.querySelector('#curve').width > 100")
    assert "POST" not in page.inner_text("#sent"), "nothing is sent before the visitor agrees"
    page.check("#contribute")
    sent = "document.querySelector('#sent').textContent"
    page.wait_for_function(f"{sent}.includes('POST /v1/sessions') && {sent}.includes('hardware')")

"""Measures what pages of one class of devices that tune one network save each other by
contributing.

All pages are open at once, each with an identity of its own, and measure between their inferences
what the zoo lends them. A page alone knows what it has measured; of several, each is sent what all
have. How many times more that is, is by how much sooner each has tried as much. On one machine the
pages take the cores from each other, so that this is counted in candidates and not in seconds; many
pages measure for longer, so that each has had as much of a core.
"""

import json
import os
from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench.browser import chromium
from bench.models.at_gateway import add, hold_back_compiler
from bench.models.cases import CASES, TINY, NetworkCase
from bench.models.files import network_files, publish
from bench.models.jit import JitAnswer
from bench.models.options import FOLDER
from bench.models.page import models_page
from bench.options import parser, run
from bench.report import CannotMeasure, Cell, Claim, Report, machine
from bench.serving.fresh_stack import fresh_stack
from bench.site import BenchSite
from cli.gateway_client import GatewayClient
from cli.simulate.run import environment_of
from kernelzoo.domain.device import DeviceClass
from kernelzoo.store import curves
from kernelzoo.store.blocking import connected, fetch_all
from services.aggregator.publishing import Rule
from services.gateway.wire.applications import ApplicationRequest

PAGES = (1, 2, 5, 20)
QUORUM = 5
APPLICATION = "bench"
CORES = os.cpu_count() or 1
CLASSES = 1
"""All pages are of one browser and one machine."""

REACH = {2: 1.7, 5: 3.5, 20: 9.0}
"""Times as many candidates as a page has measured."""


def main() -> None:
    options = parser("Pages that tune one network and share what they measure.")
    options.add_argument("--folder", type=Path, default=FOLDER, help="where `make networks` writes")
    options.add_argument("--only", default="mobilenetv2", choices=[each.name for each in KNOWN])
    options.add_argument("--pages", type=int, nargs="+", default=PAGES)
    options.add_argument("--seconds", type=float, default=20, help="of a core, for each page")
    run(options, measure, tiny=("--only", TINY.name, "--pages", "2", "--seconds", "5"))


KNOWN = (*CASES, TINY)


def measure(options: Namespace) -> Report:
    case = next(each for each in KNOWN if each.name == options.only)
    held = [_shared(case, pages, options) for pages in options.pages]
    rows = [row for _, row in held]
    claims = [
        Claim.at_least(f"{pages} pages", shared, "times what one measured", REACH[pages])
        for pages, (shared, _) in zip(options.pages, held, strict=True)
        if pages in REACH
    ]
    return Report(
        name="models-jit-pages",
        machine=machine(seconds=options.seconds),
        rows=rows,
        claims=claims,
    )


def _shared(case: NetworkCase, pages: int, options: Namespace) -> tuple[float, dict[str, Cell]]:
    """Candidates that are known over those that a page measured, and the row that says so."""
    rule = Rule(quorum=min(pages, QUORUM), malicious_share=0.0)
    with (
        BenchSite.serving() as site,
        fresh_stack(environment_of(rule)) as stack,
        GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway,
    ):
        hold_back_compiler(stack)
        files = network_files(options.folder, case)
        add(gateway, files)
        application = ApplicationRequest(name=APPLICATION, origins=[site.url])
        gateway.create_application(application)
        asked = {
            "gateway": stack.url,
            "name": case.name,
            "rest": 1,
            "seconds": options.seconds * max(1, pages / CORES),
            "peerEvery": 0,
            "beside": False,
            "application": APPLICATION,
            "backend": "wasm",
        }
        answers = _answers(site.url, publish(site, files, None), asked, pages)
        with connected(stack.postgres.url) as db:
            reported = [
                row
                for job in gateway.jobs()
                for each in fetch_all(db, curves.by_class(job.job, CLASSES))
                for row in fetch_all(
                    db, curves.reported(job.job, DeviceClass.parse(each.device_class))
                )
            ]
    known = len({row.candidate_id for row in reported})
    if known == 0:
        raise CannotMeasure("no page has measured anything for the zoo")
    by_each = len(reported) / pages
    row: dict[str, Cell] = {
        "network": case.name,
        "pages": pages,
        "known": known,
        "by_each": by_each,
        "shared": known / by_each,
        "tried_alone": sum(answer.measured for answer in answers) / pages,
        "swaps": sum(len(answer.swaps) for answer in answers) / pages,
        "taken_back": sum(len(answer.regressions) for answer in answers),
        "difference": max(answer.difference for answer in answers),
    }
    return known / by_each, row


def _answers(site_url: str, network: str, asked: dict[str, object], pages: int) -> list[JitAnswer]:
    start = f"""async (asked) => {{
        const network = await (await fetch({json.dumps(network)})).json();
        globalThis.told = kernelzooModels.jit({{ ...asked, network }}).then(JSON.stringify);
        globalThis.told.catch(() => undefined);
    }}"""
    with chromium() as browser, ExitStack() as contexts:
        opened = []
        for _ in range(pages):
            page = contexts.enter_context(models_page(browser, site_url))
            page.evaluate(start, asked)
            opened.append(page)
        try:
            told = [page.evaluate("() => globalThis.told") for page in opened]
        except Exception as error:
            raise CannotMeasure(f"a page failed: {str(error)[:400]}") from error
    return [msgspec.json.decode(each, type=JitAnswer) for each in told]


if __name__ == "__main__":
    main()

"""The npm package as a site gets it: packed, type-checked, bundled, run on another origin."""

import json
import subprocess
import tarfile
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from kernelzoo import __version__
from kernelzoo.cli.gateway_client import GatewayClient
from kernelzoo.cli.stack.supervisor import Stack
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from tests.browser.sites import site
from tests.running import eventually

CLIENT = Path(__file__).parents[2] / "client"
TOOLS = CLIENT / "node_modules"
KEY = "matmul:f32:m8k8n8"
MAIN = """
import { KernelZoo } from "kernelzoo";

const zoo = await KernelZoo.open("%s");
const matmul = await zoo.kernel("matmul:f32:m8k8n8");
const ones = new Float32Array(64).fill(1);
const output: Float32Array = matmul.run({ a: ones, b: ones }) as Float32Array;
document.title = `the sum is ${output[0]}`;
"""
STRICT = {
    "compilerOptions": {
        "strict": True,
        "target": "ES2022",
        "module": "ESNext",
        "moduleResolution": "bundler",
        "lib": ["ES2022", "DOM"],
        "noEmit": True,
    },
    "files": ["main.ts"],
}


@pytest.fixture
def project(stack: Stack, tmp_path: Path) -> Path:
    """A new site with the packed package and its peer installed."""
    command = ("npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(tmp_path))
    subprocess.run(command, cwd=CLIENT, check=True, capture_output=True)
    modules = tmp_path / "node_modules"
    modules.mkdir()
    with tarfile.open(tmp_path / f"kernelzoo-{__version__}.tgz") as packed:
        packed.extractall(modules, filter="data")
    (modules / "package").rename(modules / "kernelzoo")
    (modules / "@webgpu").symlink_to(TOOLS / "@webgpu")
    (tmp_path / "main.ts").write_text(MAIN % stack.url)
    (tmp_path / "tsconfig.json").write_text(json.dumps(STRICT))
    return tmp_path


def test_the_package_is_typed_and_its_bundle_runs_on_another_origin(
    stack: Stack, project: Path, context: BrowserContext
) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        job = gateway.register(Workload.parse(KEY), TargetKind.WASM).job
        eventually(lambda: gateway.job(job).compiled > 0, "a compiled kernel")
    typed = subprocess.run(
        ("node", str(TOOLS / "typescript" / "bin" / "tsc")),
        cwd=project,
        check=False,
        capture_output=True,
        text=True,
    )
    assert typed.stdout == ""
    bundle = subprocess.run(
        (str(TOOLS / ".bin" / "esbuild"), "main.ts", "--bundle", "--format=esm"),
        cwd=project,
        check=True,
        capture_output=True,
        text=True,
    )
    with site({}) as origin:
        page = context.new_page()
        page.goto(origin)
        page.add_script_tag(content=bundle.stdout, type="module")
        page.wait_for_function("document.title === 'the sum is 8'")


def test_the_package_holds_the_sdk_and_nothing_of_the_pages(project: Path) -> None:
    held = {path.name for path in (project / "node_modules" / "kernelzoo" / "dist").iterdir()}
    assert {"sdk.js", "sdk.d.ts", "types"} <= held
    assert not any(name.startswith(("console", "agent", "swagger", "docs")) for name in held)
    described = json.loads((project / "node_modules" / "kernelzoo" / "package.json").read_text())
    assert described["exports"]["."] == {"types": "./dist/sdk.d.ts", "default": "./dist/sdk.js"}
    assert "dependencies" not in described

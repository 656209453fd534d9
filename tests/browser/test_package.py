"""The npm package as a site gets it: packed, installed, type-checked, bundled, run elsewhere."""

import json
import subprocess
from pathlib import Path
from shutil import copytree

import pytest
from playwright.sync_api import BrowserContext

from cli.gateway_client import GatewayClient
from cli.stack.supervisor import Stack
from kernelzoo import __version__
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from tests.browser.sites import site
from tests.examples import one_in
from tests.running import eventually

CLIENT = Path(__file__).parents[2] / "client"
TOOLS = CLIENT / "node_modules"
OF_ORT = Path(__file__).parent / "typed" / "ort.ts"
ORT_COMMON = CLIENT.parent / "bench" / "page" / "node_modules" / "onnxruntime-common"
KEY = "matmul:f32:m8k8n8"
MAIN = """
import { KernelZoo } from "kernelzoo";

const zoo = await KernelZoo.open("%s");
const matmul = await zoo.kernel("matmul:f32:m8k8n8");
const ones = new Float32Array(64).fill(1);
const output: Float32Array = matmul.run({ a: ones, b: ones });
document.title = `the sum is ${output[0]}`;
"""
# Types alone: everything of WebGPU that the package's declarations name.
TYPED = """
import { KernelZoo, type Kernel, type WorkloadKey } from "kernelzoo";
import { chatClient, type ChatCompletion, type Tokenizer } from "kernelzoo/chat";

export async function main(zoo: KernelZoo, someKey: string): Promise<Float32Array> {
  const kernel = await zoo.kernel("gather:f32:m9k20n13");
  const indices: Int32Array = kernel.inputs.indices;
  kernel.gpu?.write("indices", indices);
  const other: Kernel = await zoo.kernel(someKey);
  const key: WorkloadKey<"matmul:f32:m8k8n8"> = "matmul:f32:m8k8n8";
  await zoo.kernels([key]);
  return other.runAsync();
}

export async function ask(zoo: KernelZoo, tokenizer: Tokenizer): Promise<ChatCompletion> {
  const { chat } = chatClient(await zoo.languageModel("smollm"), { tokenizer });
  const messages = [{ role: "user", content: "Why?" }] as const;
  for await (const { choices } of await chat.completions.create({ messages, stream: true })) {
    const piece: string | undefined = choices[0]?.delta.content;
    if (piece === "") break;
  }
  return chat.completions.create({ messages, max_tokens: 9 });
}
"""
# Wherever TypeScript knows WebGPU, the package's types are the project's own.
WITH_WEBGPU = """
import type { GpuKernel } from "kernelzoo";

export function destroyed({ device, buffers }: GpuKernel): GPUDevice {
  const buffer: GPUBuffer | undefined = buffers.a;
  buffer?.destroy();
  device.destroy();
  // @ts-expect-error: known, and therefore held to what it is
  device.vanish();
  return device;
}
"""
WRONG = """
import { KernelZoo } from "kernelzoo";

const zoo = await KernelZoo.open("https://zoo.example");
await zoo.kernel("matmull:f32:m8k8n8");
await zoo.kernel("matmul:f32:m8n8k8");
(await zoo.kernel("matmul:f32:m8k8n8")).run({ c: [1] });
"""
STRICT = {
    "strict": True,
    "skipLibCheck": False,
    "exactOptionalPropertyTypes": True,
    "target": "ES2022",
    "module": "ESNext",
    "moduleResolution": "bundler",
    "lib": ["ES2022", "DOM"],
    "types": [],
    "noEmit": True,
}
NODE = {"module": "NodeNext", "moduleResolution": "NodeNext"}
TYPESCRIPTS = {"7": "typescript-native", "6": "typescript-6", "5": "typescript"}
EACH_TYPESCRIPT = pytest.mark.parametrize("typescript", one_in(len(TYPESCRIPTS), TYPESCRIPTS))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new site with the packed package, installed as npm installs it, and nothing else."""
    place = tmp_path_factory.mktemp("package")
    command = ("npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(place))
    subprocess.run(command, cwd=CLIENT, check=True, capture_output=True)
    site_folder = tmp_path_factory.mktemp("a-site")
    (site_folder / "package.json").write_text('{"name": "a-site", "type": "module"}')
    packed = place / f"kernelzoo-{__version__}.tgz"
    # A cache of its own: what npm finds in the machine's decides nothing here.
    own = ("--cache", str(place / "cache"), "--no-update-notifier")
    install = ("npm", "install", "--offline", "--no-audit", "--no-fund", *own, str(packed))
    subprocess.run(
        install, cwd=site_folder, check=True, stdin=subprocess.DEVNULL, capture_output=True
    )
    return site_folder


@pytest.fixture
def project(installed: Path, tmp_path: Path) -> Path:
    copytree(installed, tmp_path, dirs_exist_ok=True)
    return tmp_path


def checked(project: Path, typescript: str, text: str, **options: object) -> str:
    """Returns what the compiler says of a page; nothing where it is content."""
    (project / "main.ts").write_text(text)
    config = {"compilerOptions": {**STRICT, **options}, "files": ["main.ts"]}
    (project / "tsconfig.json").write_text(json.dumps(config))
    found = subprocess.run(
        ("node", str(TOOLS / TYPESCRIPTS[typescript] / "bin" / "tsc")),
        cwd=project,
        check=False,
        capture_output=True,
        text=True,
    )
    return found.stdout


@EACH_TYPESCRIPT
def test_the_declarations_are_right_in_every_typescript_without_another_package(
    project: Path, typescript: str
) -> None:
    assert checked(project, typescript, TYPED) == ""
    assert checked(project, typescript, TYPED, **NODE) == ""


@EACH_TYPESCRIPT
def test_sessions_and_tensors_have_the_types_of_onnxruntime(project: Path, typescript: str) -> None:
    (project / "node_modules" / "onnxruntime-common").symlink_to(ORT_COMMON)
    assert checked(project, typescript, OF_ORT.read_text()) == ""


@EACH_TYPESCRIPT
def test_interfaces_of_webgpu_are_those_that_the_project_has(
    project: Path, typescript: str
) -> None:
    if typescript != "5":
        assert checked(project, typescript, WITH_WEBGPU) == ""
        return
    (project / "node_modules" / "@webgpu").symlink_to(TOOLS / "@webgpu")
    assert checked(project, typescript, WITH_WEBGPU, types=["@webgpu/types"]) == ""
    assert checked(project, typescript, TYPED, types=["@webgpu/types"]) == ""


@EACH_TYPESCRIPT
def test_a_key_that_names_no_operator_does_not_compile_and_the_compiler_says_why(
    project: Path, typescript: str
) -> None:
    said = checked(project, typescript, WRONG)
    assert "no operator is called matmull" in said
    assert "the extents of matmul are m${number}k${number}n${number}" in said
    assert said.count("main.ts") == 3


def test_a_bundle_of_the_package_runs_on_another_origin(
    stack: Stack, project: Path, context: BrowserContext
) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        job = gateway.register(Workload.parse(KEY), TargetKind.WASM).job
        eventually(lambda: gateway.job(job).compiled > 0, "a compiled kernel")
    (project / "main.ts").write_text(MAIN % stack.url)
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


def test_the_package_holds_the_sdk_and_nothing_of_the_pages(installed: Path) -> None:
    package = installed / "node_modules" / "kernelzoo"
    held = {path.name for path in (package / "dist").iterdir()}
    assert {"sdk.js", "sdk.d.ts", "chat.js", "chat.d.ts", "ort.js", "ort.d.ts", "types"} <= held
    assert not any(name.startswith(("console", "agent", "swagger", "docs")) for name in held)
    assert not any(name.endswith((".br", ".gz")) for name in held)
    assert {path.name for path in package.iterdir()} == {
        *("LICENSE", "README.md", "dist", "package.json")
    }


def test_a_registry_would_take_the_package(installed: Path) -> None:
    package = installed / "node_modules" / "kernelzoo"
    described = json.loads((package / "package.json").read_text())
    assert described["exports"]["."] == {"types": "./dist/sdk.d.ts", "default": "./dist/sdk.js"}
    assert not {"private", "dependencies"} & described.keys()
    optional = {"optional": True}
    peers = dict.fromkeys(
        ("@huggingface/jinja", "@huggingface/tokenizers", "onnxruntime-common"), optional
    )
    assert described["peerDependenciesMeta"] == peers
    assert described["peerDependencies"].keys() == peers.keys()
    assert (described["name"], described["version"]) == ("kernelzoo", __version__)
    assert described["license"] == "Apache-2.0"
    command = ("npm", "publish", "--dry-run", "--ignore-scripts", "--offline", str(package))
    said = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (said.returncode, "npm error" in said.stderr) == (0, False), said.stderr

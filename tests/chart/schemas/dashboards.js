/**
 * Checks dashboards against Grafana's own types of their JSON, as the release types it that
 * compose.yaml runs: an object of dashboards by name on standard input, a line for each complaint on
 * standard output.
 *
 * A dashboard becomes a constant of the type `Dashboard`, so a field that is not Grafana's is a
 * complaint. What a panel draws with is typed by its plugin; it may leave out what has a default.
 */
import { readFileSync } from "node:fs";
import ts from "typescript";

const PANELS = {
  stat: ["stat", "StatPanelCfg"],
  table: ["table", "TablePanelCfg"],
  timeseries: ["timeseries", "TimeSeriesPanelCfg"],
};
const NO_FIELDS = new Set(["stat"]);

/** `Wire`: values of an enumeration are text in JSON. */
const HEAD = `
import type { Dashboard, Panel } from "@grafana/schema";
type Wire<T> = T extends string ? \`\${T}\`
  : T extends readonly (infer U)[] ? Wire<U>[]
  : T extends object ? { [K in keyof T]: Wire<T[K]> } : T;
type Some<T> = T extends readonly unknown[] ? T
  : T extends object ? { [K in keyof T]?: Some<T[K]> } : T;
type Whole = Wire<Omit<Dashboard, "panels">>;
type Plain = Wire<Omit<Panel, "options" | "fieldConfig">>;
type Fields = Wire<Omit<NonNullable<Panel["fieldConfig"]>["defaults"], "custom">>;
`;

const imports = Object.entries(PANELS).map(
  ([kind, [folder, name]]) =>
    `import type * as ${kind} from "@grafana/schema/dist/esm/raw/composable/${folder}/panelcfg/x/${name}_types.gen";`,
);

/** One constant a line, so that a complaint's line says what it is about. */
function* constants(dashboards) {
  for (const [name, { panels, ...whole }] of Object.entries(dashboards)) {
    yield [name, "Whole", whole];
    for (const { options, fieldConfig, ...plain } of panels) {
      const where = `${name}, ${plain.title}`;
      const { custom, ...fields } = fieldConfig.defaults;
      yield [where, "Plain", plain];
      yield [where, "Fields", fields];
      yield [where, `Some<Wire<${plain.type}.Options>>`, options];
      if (custom !== undefined && !NO_FIELDS.has(plain.type)) {
        yield [where, `Some<Wire<${plain.type}.FieldConfig>>`, custom];
      }
    }
  }
}

const FILE = new URL("dashboards.ts", import.meta.url).pathname;
const OPTIONS = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  types: [],
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
};

function complaints(text) {
  const host = ts.createCompilerHost(OPTIONS);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (path) => path === FILE || fileExists(path);
  host.getSourceFile = (path, version) =>
    path === FILE ? ts.createSourceFile(path, text, version) : getSourceFile(path, version);
  return ts.getPreEmitDiagnostics(ts.createProgram([FILE], OPTIONS, host));
}

const found = [...constants(JSON.parse(readFileSync(0, "utf8")))];
const head = [...imports, HEAD].join("\n").split("\n");
const lines = found.map(([, type, value], n) => `export const c${n}: ${type} = ${JSON.stringify(value)};`);
for (const each of complaints([...head, ...lines].join("\n"))) {
  const line = each.file === undefined ? -1 : each.file.getLineAndCharacterOfPosition(each.start).line;
  const [where] = found[line - head.length] ?? ["the check itself"];
  console.log(`${where}: ${ts.flattenDiagnosticMessageText(each.messageText, " ")}`);
}

// What Biome has no rules for: known classes of vulnerabilities in the client and the examples.
import noUnsanitized from "eslint-plugin-no-unsanitized";
import security from "eslint-plugin-security";
import tseslint from "typescript-eslint";

export default [
  {
    ignores: [
      "client/dist/**",
      "client/node_modules/**",
      "client/src/wire/schema.ts",
      "examples/chat/dist/**",
    ],
  },
  {
    files: ["client/**/*.ts", "client/**/*.js", "examples/**/*.js", "examples/**/*.ts"],
    languageOptions: { parser: tseslint.parser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    plugins: { security, "no-unsanitized": noUnsanitized },
    rules: {
      ...security.configs.recommended.rules,
      ...noUnsanitized.configs.recommended.rules,
      // It reports every `table[index]`; the compiler checks those (noUncheckedIndexedAccess).
      "security/detect-object-injection": "off",
    },
  },
  {
    files: ["client/*.js"],
    // The build's own scripts: names of files and modules that they run are theirs, none comes from outside.
    rules: {
      "security/detect-non-literal-fs-filename": "off",
      "no-unsanitized/method": "off",
    },
  },
  {
    files: ["client/tests/**"],
    // Expectations of a test's own constants, modules of this repository, and files that a test makes.
    rules: {
      "security/detect-non-literal-regexp": "off",
      "security/detect-non-literal-fs-filename": "off",
      "no-unsanitized/method": "off",
    },
  },
  {
    files: ["examples/zoo.js", "examples/kernels/kernels.js"],
    // `?zoo=` and `?frameworks=` name whose code the page runs; the examples say so.
    rules: { "no-unsanitized/method": "off" },
  },
];

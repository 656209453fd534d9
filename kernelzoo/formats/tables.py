"""A plain lookup table per vendor, as source text for runtimes: a C++ header, a TypeScript module.

No dependency, no allocation, no start-up: what a maintainer checks in and updates by a script.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kernelzoo.domain.candidate import Setting
from kernelzoo.domain.target import TargetKind
from kernelzoo.formats.results import TableRow

_CPP = """// Written by `kernelzoo zoo export --format cpp`. Do not edit: export again.
#pragma once

#include <cstddef>
#include <string_view>

namespace kernelzoo {{

struct Setting {{
  std::string_view name;
  std::string_view value;
}};

// The kernel that most of a vendor's devices voted for; an empty vendor stands for all devices.
// `features` are what its code requires, with spaces between them. `relative_time` is over the
// default kernel.
struct Kernel {{
  std::string_view workload;
  std::string_view target;
  std::string_view vendor;
  std::string_view features;
  std::string_view sha256;
  const Setting* settings;
  std::size_t setting_count;
  int ballots;
  double relative_time;
}};

{settings}
inline constexpr Kernel kernels[] = {{
{kernels}
}};

// The vendor's kernel, else that of all devices, else nullptr. `offers(features)` says whether the
// browser or device has them all.
template <typename Offers>
constexpr const Kernel* find(std::string_view workload, std::string_view target,
                             std::string_view vendor, Offers offers) {{
  for (const Kernel& kernel : kernels) {{
    if (kernel.workload == workload && kernel.target == target &&
        (kernel.vendor == vendor || kernel.vendor.empty()) && offers(kernel.features)) {{
      return &kernel;
    }}
  }}
  return nullptr;
}}

constexpr std::string_view setting(const Kernel& kernel, std::string_view name) {{
  for (std::size_t i = 0; i < kernel.setting_count; ++i) {{
    if (kernel.settings[i].name == name) return kernel.settings[i].value;
  }}
  return {{}};
}}

}}  // namespace kernelzoo
"""

_TYPESCRIPT = """\
// Written by `kernelzoo zoo export --format typescript`. Do not edit: export again.

/** The kernel that most of a vendor's devices voted for; the vendor "" stands for all devices. */
export interface Kernel {{
  readonly workload: string;
  readonly target: "wasm" | "webgpu";
  readonly vendor: string;
  /** What its code requires. */
  readonly features: readonly string[];
  readonly sha256: string;
  readonly config: Readonly<Record<string, number | boolean | string>>;
  readonly ballots: number;
  /** Over the time of the default kernel. */
  readonly relativeTime: number;
}}

export const kernels: readonly Kernel[] = {table};

/** The vendor's kernel, else that of all devices, of those whose features are all offered. */
export function find(
  workload: string,
  target: Kernel["target"],
  vendor: string,
  offered: ReadonlySet<string>,
): Kernel | undefined {{
  return kernels.find(
    (kernel) =>
      kernel.workload === workload &&
      kernel.target === target &&
      (kernel.vendor === vendor || kernel.vendor === "") &&
      kernel.features.every((feature) => offered.has(feature)),
  );
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Rows of one place compete. Code that requires other features competes elsewhere, since a
    browser may not be able to run it."""

    workload_key: str
    target: TargetKind
    vendor: str
    requires: tuple[str, ...]


def winners(rows: Iterable[TableRow]) -> tuple[TableRow, ...]:
    """For each workload, target, vendor and set of required features the kernel with the most
    ballots, of equals the one that gains most; and the same for all devices, with the vendor ''.

    `rows` are entries of device classes. In the order in which a reader takes the first that fits.
    """
    voted: dict[_Place, dict[str, list[TableRow]]] = {}
    for row in rows:
        for vendor in dict.fromkeys((row.vendor, "")):
            place = _Place(
                workload_key=row.workload_key,
                target=row.target,
                vendor=vendor,
                requires=row.requires,
            )
            voted.setdefault(place, {}).setdefault(row.artifact, []).append(row)
    elected = (
        _elected(place, max(kernels.values(), key=_standing)) for place, kernels in voted.items()
    )
    return tuple(sorted(elected, key=_reading_order))


def cpp(rows: tuple[TableRow, ...]) -> str:
    """`rows` are `winners`. C++17."""
    return _CPP.format(
        settings="".join(_cpp_settings(number, row) for number, row in enumerate(rows)),
        kernels="\n".join(_cpp_kernel(number, row) for number, row in enumerate(rows)),
    )


def typescript(rows: tuple[TableRow, ...]) -> str:
    """`rows` are `winners`."""
    table = [
        {
            "workload": row.workload_key,
            "target": row.target,
            "vendor": row.vendor,
            "features": list(row.requires),
            "sha256": row.artifact,
            "config": dict(row.config),
            "ballots": row.ballots,
            "relativeTime": row.relative_time,
        }
        for row in rows
    ]
    return _TYPESCRIPT.format(table=json.dumps(table, indent=2))


def _standing(rows: list[TableRow]) -> tuple[int, float, str]:
    return sum(row.ballots for row in rows), -_mean_time(rows), rows[0].artifact


def _mean_time(rows: list[TableRow]) -> float:
    """Over the classes that elected it, by ballots."""
    return sum(row.relative_time * row.ballots for row in rows) / sum(row.ballots for row in rows)


def _elected(place: _Place, rows: list[TableRow]) -> TableRow:
    return replace(
        rows[0],
        vendor=place.vendor,
        ballots=sum(row.ballots for row in rows),
        relative_time=round(_mean_time(rows), 4),
    )


def _reading_order(row: TableRow) -> tuple[str, str, bool, str, int, float, tuple[str, ...]]:
    """A vendor's own before the common ones, the better founded first."""
    place = (row.workload_key, row.target, row.vendor == "", row.vendor)
    return (*place, -row.ballots, row.relative_time, row.requires)


def _cpp_settings(number: int, row: TableRow) -> str:
    pairs = ", ".join(f"{{{_quoted(name)}, {_quoted(_text(v))}}}" for name, v in row.config)
    return f"inline constexpr Setting settings_{number}[] = {{{pairs}}};\n"


def _cpp_kernel(number: int, row: TableRow) -> str:
    fields = (
        *(_quoted(row.workload_key), _quoted(row.target), _quoted(row.vendor)),
        *(_quoted(" ".join(row.requires)), _quoted(row.artifact)),
        *(f"settings_{number}", str(len(row.config)), str(row.ballots), repr(row.relative_time)),
    )
    return f"    {{{', '.join(fields)}}},"


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    """A C++ literal: what JSON escapes, C++ reads alike for ASCII."""
    return json.dumps(text)

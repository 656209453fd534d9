/** The wire types by name. `schema.ts` is generated from the gateway's OpenAPI document. */
import type { components } from "./schema.js";

type Schemas = components["schemas"];

export type Advice = Schemas["Advice"];
export type ArtifactWire = Schemas["ArtifactWire"];
export type BallotLineWire = Schemas["BallotLineWire"];
export type BallotRequest = Schemas["BallotRequest"];
export type Device = Schemas["Device"];
export type DeviceList = Schemas["DeviceList"];
export type Evidence = Schemas["EvidenceWire"];
export type FailureReport = Schemas["FailureReport"];
export type Grounds = Schemas["GroundsWire"];
export type HitLevel = Schemas["HitLevel"];
export type EntryState = Schemas["EntryState"];
export type Job = Schemas["Job"];
export type JobList = Schemas["JobList"];
export type KernelWire = Schemas["Kernel"];
export type Lease = Schemas["Lease"];
export type LeaseRequest = Schemas["LeaseRequest"];
export type Manifest = Schemas["Manifest"];
export type ManifestEntry = Schemas["ManifestEntry"];
export type MeasurementWire = Schemas["MeasurementWire"];
export type Outcome = Schemas["Outcome"];
export type GpuProbeLevels = Schemas["WebGpuProbeWire"];
export type ProbeLevels = Schemas["WasmProbeWire"];
export type Report = Schemas["Report"];
export type SessionRequest = Schemas["SessionRequest"];
export type ServedKernel = Schemas["ServedKernel"];
export type SessionResponse = Schemas["SessionResponse"];
export type TargetKind = Schemas["TargetKind"];
export type TensorWire = Schemas["TensorWire"];
export type ZooEntry = Schemas["ZooEntry"];
export type ZooList = Schemas["ZooList"];

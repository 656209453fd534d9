/** The wire types by name. `schema.ts` is generated from the gateway's OpenAPI document. */
import type { components } from "./schema.js";

/** Values of the interface, by the names that its document has. */
export type Schemas = components["schemas"];

export type Advice = Schemas["Advice"];
export type ArtifactWire = Schemas["ArtifactWire"];
export type AttestationRequest = Schemas["AttestationRequest"];
export type BallotLineWire = Schemas["BallotLineWire"];
export type BallotRequest = Schemas["BallotRequest"];
export type CandidateStanding = Schemas["CandidateStanding"];
export type ClassOfDevices = Schemas["ClassOfDevices"];
export type Coverage = Schemas["Coverage"];
export type Curve = Schemas["Curve"];
export type Decision = Schemas["Decision"];
export type Device = Schemas["Device"];
export type DeviceList = Schemas["DeviceList"];
export type Evidence = Schemas["EvidenceWire"];
export type FileWire = Schemas["FileWire"];
export type DeniedList = Schemas["DeniedList"];
export type FailureReport = Schemas["FailureReport"];
export type FoundKey = Schemas["FoundKey"];
export type FoundKeys = Schemas["FoundKeys"];
export type Grounds = Schemas["GroundsWire"];
export type HardwareWire = Schemas["HardwareWire"];
export type Held = Schemas["Held"];
export type HitLevel = Schemas["HitLevel"];
export type EntryState = Schemas["EntryState"];
export type Job = Schemas["Job"];
export type JobList = Schemas["JobList"];
export type Key = Schemas["Key"];
export type KernelWire = Schemas["Kernel"];
export type Lease = Schemas["Lease"];
export type LeaseReport = Schemas["LeaseReport"];
export type LeaseRequest = Schemas["LeaseRequest"];
export type Manifest = Schemas["Manifest"];
export type ManifestEntry = Schemas["ManifestEntry"];
export type ModelManifest = Schemas["ModelManifest"];
export type MeasurementWire = Schemas["MeasurementWire"];
export type Outcome = Schemas["Outcome"];
export type OutcomeCount = Schemas["OutcomeCount"];
export type Overview = Schemas["Overview"];
export type GpuProbeLevels = Schemas["WebGpuProbeWire"];
export type ProbeLevels = Schemas["WasmProbeWire"];
export type PreparationWire = Schemas["PreparationWire"];
export type JobProgress = Schemas["Progress"];
export type Promotion = Schemas["Promotion"];
export type Reason = Schemas["Reason"];
export type SessionRequest = Omit<Schemas["SessionRequest"], "target"> & {
  readonly target: MeasuredTarget;
};
export type ServedKernel = Schemas["ServedKernel"];
export type SessionResponse = Schemas["SessionResponse"];
export type TargetKind = Schemas["TargetKind"];
/** Targets whose kernels agents measure; of javascript everyone is given the default kernels. */
export type MeasuredTarget = Exclude<TargetKind, "javascript">;
export type TensorWire = Schemas["TensorWire"];
export type Version = Schemas["Version"];
export type WrongOutputReport = Schemas["WrongOutput"];
export type WrongPlan = Schemas["WrongPlan"];
export type ModelCoverage = Schemas["ModelCoverage"];
export type ModelTimeline = Schemas["ModelTimeline"];
export type ModelList = Schemas["ModelList"];
export type PlanCoverage = Schemas["PlanCoverage"];

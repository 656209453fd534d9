import type {
  AttestationRequest,
  BallotRequest,
  FailureReport,
  Lease,
  LeaseReport,
  LeaseRequest,
  SessionRequest,
  SessionResponse,
} from "../wire/types.js";
import { type Answer, ask } from "./request.js";

/** The requests of an agent, version 1. Each asks once. */
export interface Gateway {
  openSession(request: SessionRequest): Promise<Answer<SessionResponse>>;
  attest(token: string, attestation: AttestationRequest): Promise<Answer<unknown>>;
  lease(token: string, request: LeaseRequest): Promise<Answer<Lease>>;
  report(token: string, lease: string, report: LeaseReport): Promise<Answer<unknown>>;
  fileBallot(token: string, ballot: BallotRequest): Promise<Answer<unknown>>;
  reportFailure(failure: FailureReport): Promise<Answer<unknown>>;
}

const OPERATOR_HEADER = "X-Kernelzoo-Operator";

function json(method: string, body: string, headers: Record<string, string>): RequestInit {
  return {
    method,
    body,
    headers: { "Content-Type": "application/json", ...headers },
  };
}

/** Called for each request with the JSON text that goes out. */
export type Sending = (method: string, path: string, body: string) => void;

/** A gateway at `origin`. `operatorKey` is the fleet's, sent where there is no session's token. */
export function httpGateway(
  origin: URL,
  operatorKey: string | null,
  signal: AbortSignal,
  sending: Sending = () => undefined,
): Gateway {
  const send = <T>(
    method: string,
    path: string,
    value: unknown,
    headers: Record<string, string>,
  ): Promise<Answer<T>> => {
    const body = JSON.stringify(value);
    sending(method, path, body);
    return ask<T>(new URL(path, origin), { ...json(method, body, headers), signal });
  };
  const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
  const operator = operatorKey === null ? {} : { [OPERATOR_HEADER]: operatorKey };
  return {
    openSession: (request) => send("POST", "/v1/sessions", request, operator),
    attest: (token, attestation) => send("POST", "/v1/attestations", attestation, bearer(token)),
    lease: (token, request) => send("POST", "/v1/leases", request, bearer(token)),
    report: (token, lease, report) =>
      send("POST", `/v1/leases/${lease}/measurements`, report, bearer(token)),
    fileBallot: (token, ballot) => send("PUT", "/v1/ballots", ballot, bearer(token)),
    reportFailure: (failure) => send("POST", "/v1/failures", failure, operator),
  };
}

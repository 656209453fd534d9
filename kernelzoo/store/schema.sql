-- The schema as it is today. `migrations/` leads to the same schema; a test holds them equal.

CREATE TABLE workload (
    key text PRIMARY KEY,
    flops bigint NOT NULL CHECK (flops > 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    measured boolean NOT NULL DEFAULT true
);
COMMENT ON TABLE workload IS 'An operator with concrete extents; key as in kernelzoo.domain.workload.';
COMMENT ON COLUMN workload.measured IS
    'Whether agents are lent its kernels. False for one whose tensors are larger than they hold: pages '
    'are given the defaults.';

CREATE TABLE workload_set (
    name text NOT NULL,
    position integer NOT NULL,
    workload_key text NOT NULL REFERENCES workload,
    PRIMARY KEY (name, position),
    UNIQUE (name, workload_key)
);
COMMENT ON TABLE workload_set IS 'The workloads of one application, asked for in one request.';

CREATE TABLE tuning_job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workload_key text NOT NULL REFERENCES workload,
    target text NOT NULL CHECK (target IN ('wasm', 'webgpu', 'javascript')),
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'planned', 'failed')),
    detail text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    requeued_at timestamptz NOT NULL DEFAULT now(),
    space text NOT NULL,
    cancelled_at timestamptz,
    priority double precision NOT NULL DEFAULT 1,
    UNIQUE (workload_key, target, space),
    CHECK ((target <> 'webgpu') = (space = ''))
);
COMMENT ON COLUMN tuning_job.state IS 'waiting: no candidates yet; planned: its candidates are rows.';
COMMENT ON COLUMN tuning_job.cancelled_at IS
    'Since then nothing of it is compiled or lent; what is served stays. Null where it goes on.';
COMMENT ON COLUMN tuning_job.priority IS
    'Agents take the highest first. Of a job that was opened for models alone it is the largest share '
    'of an inference that the workload takes; of one that somebody asked for it is 1.';
COMMENT ON COLUMN tuning_job.requeued_at IS 'When a message for this row was last sent.';
COMMENT ON COLUMN tuning_job.space IS
    'Name of a kernelzoo.domain.gpu model for webgpu, ''any'' where none is known; '''' for others.';

CREATE TABLE artifact (
    sha256 text PRIMARY KEY CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    target text NOT NULL CHECK (target IN ('wasm', 'webgpu', 'javascript')),
    body bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE artifact IS 'Compiled kernels by content. Rows never change.';

CREATE TABLE candidate (
    candidate_id text PRIMARY KEY CHECK (candidate_id ~ '^[0-9a-f]{32}$'),
    config jsonb NOT NULL,
    requires text[] NOT NULL,
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'compiled', 'failed')),
    attempts integer NOT NULL DEFAULT 0,
    artifact_sha256 text REFERENCES artifact,
    compile_ns bigint,
    compiled_at timestamptz,
    detail text NOT NULL DEFAULT '',
    requeued_at timestamptz NOT NULL DEFAULT now(),
    workload_key text NOT NULL REFERENCES workload,
    target text NOT NULL CHECK (target IN ('wasm', 'webgpu', 'javascript')),
    manifest jsonb,
    is_default boolean NOT NULL DEFAULT false,
    CHECK ((state = 'compiled') = (artifact_sha256 IS NOT NULL)),
    CHECK ((state = 'compiled') = (manifest IS NOT NULL))
);
COMMENT ON COLUMN candidate.attempts IS 'Compilations begun. A candidate that kills its worker is given up.';
COMMENT ON COLUMN candidate.manifest IS 'How to run its artifact; other candidates may have the same bytes.';
COMMENT ON COLUMN candidate.is_default IS
    'Whether some class of devices is given it while nothing is known of it (default_candidates). It '
    'is compiled first.';
CREATE INDEX candidate_waiting ON candidate (requeued_at) WHERE state = 'waiting';
CREATE INDEX candidate_default_waiting ON candidate (requeued_at)
    WHERE state = 'waiting' AND is_default;
CREATE INDEX candidate_space ON candidate (workload_key, target)
    INCLUDE (candidate_id, state, requires, artifact_sha256, compiled_at);
COMMENT ON INDEX candidate_space IS
    'For what a class can run of the workloads of a model, which is asked of thousands of candidates '
    'at once: their rows are wide, and it has what is asked of them.';
CREATE INDEX candidate_artifact ON candidate (artifact_sha256);

CREATE TABLE space_point (
    job_id bigint NOT NULL REFERENCES tuning_job,
    ordinal integer NOT NULL CHECK (ordinal >= 0),
    candidate_id text NOT NULL REFERENCES candidate,
    PRIMARY KEY (job_id, ordinal),
    UNIQUE (candidate_id, job_id)
);
COMMENT ON TABLE space_point IS 'The candidates of a job. Spaces of several GPU models share some.';
COMMENT ON COLUMN space_point.ordinal IS 'Order of promise within the lite space; 0 is first.';

CREATE FUNCTION is_wanted(candidate_id text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM space_point p JOIN tuning_job j ON j.id = p.job_id
        WHERE p.candidate_id = $1 AND j.cancelled_at IS NULL)
$$;
COMMENT ON FUNCTION is_wanted IS 'Whether a job that was not cancelled has this candidate.';

CREATE FUNCTION default_candidates(job_id bigint) RETURNS TABLE (candidate_id text)
    LANGUAGE sql STABLE AS $$
    WITH space AS MATERIALIZED (
        SELECT c.candidate_id, c.requires, p.ordinal
        FROM space_point p JOIN candidate c ON c.candidate_id = p.candidate_id
        WHERE p.job_id = $1 AND c.state <> 'failed'
    )
    SELECT s.candidate_id FROM space s
    WHERE NOT EXISTS (
        SELECT FROM space e WHERE e.ordinal < s.ordinal AND e.requires <@ s.requires)
$$;
COMMENT ON FUNCTION default_candidates IS
    'The candidates of a job that some class is given as its default_kernel where nothing is denied: '
    'the most promising that did not fail, one for each set of features that allows no earlier one.';

CREATE VIEW kernel AS
    SELECT c.candidate_id, a.sha256, length(a.body) AS size_bytes, c.manifest
    FROM candidate c JOIN artifact a ON a.sha256 = c.artifact_sha256;
COMMENT ON VIEW kernel IS 'Compiled candidates as a page is told of them.';

CREATE FUNCTION device_id_of(device_class text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part($1, ':', 1)
$$;
CREATE FUNCTION rho_of(device_class text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part($1, ':', 2)
$$;
CREATE FUNCTION target_of(device_class text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part(split_part($1, ':', 3), '+', 1)
$$;
CREATE FUNCTION features_of(device_class text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT (string_to_array(split_part($1, ':', 3), '+'))[2:]
$$;
COMMENT ON FUNCTION device_id_of IS
    'The device of a class, whose text is <device id>:<rho>:<target>+<feature>+...; as '
    'kernelzoo.domain.device.DeviceClass takes it apart.';

CREATE TABLE device (
    device_id text PRIMARY KEY CHECK (device_id ~ '^[0-9a-f]{16}$'),
    cpu_architecture text NOT NULL,
    logical_cores integer NOT NULL,
    gpu_vendor text NOT NULL,
    gpu_architecture text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    gpu_model text NOT NULL,
    agents integer NOT NULL DEFAULT 0,
    last_seen_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON COLUMN device.gpu_model IS 'Name of a kernelzoo.domain.gpu model, as of its last session.';
COMMENT ON COLUMN device.agents IS 'Identities that have opened a session on it.';
CREATE INDEX device_recent ON device (last_seen_at);

CREATE TABLE device_class (
    device_class text PRIMARY KEY,
    device_id text NOT NULL REFERENCES device,
    engines text[] NOT NULL,
    peak_gflops double precision NOT NULL,
    identities integer NOT NULL,
    measurements bigint NOT NULL DEFAULT 0,
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    target text NOT NULL GENERATED ALWAYS AS (target_of(device_class)) STORED,
    crowd integer NOT NULL DEFAULT 0,
    strangers integer NOT NULL DEFAULT 0
);
COMMENT ON TABLE device_class IS
    'Classes that ran an agent, with counts of all that there ever was: what is removed for its age '
    'or erased stays counted here, and names nobody.';
COMMENT ON COLUMN device_class.engines IS 'The last few engines seen, each with its major version.';
COMMENT ON COLUMN device_class.peak_gflops IS 'The largest of its sessions.';
COMMENT ON COLUMN device_class.identities IS 'That have opened a session on it.';
COMMENT ON COLUMN device_class.measurements IS 'That were given a verdict.';
COMMENT ON COLUMN device_class.crowd IS
    'Identities that have a session on it; those whose sessions were removed are not among them.';
COMMENT ON COLUMN device_class.strangers IS 'Those of its crowd that are not the operator''s.';
CREATE INDEX device_class_device ON device_class (device_id);

CREATE TABLE identity (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    network text NOT NULL,
    operated boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    valid_in_row integer NOT NULL DEFAULT 0 CHECK (valid_in_row >= 0),
    failed_at timestamptz,
    attested boolean NOT NULL DEFAULT false,
    renewed_at timestamptz NOT NULL DEFAULT now(),
    erased_at timestamptz
);
COMMENT ON TABLE identity IS 'One browser profile. One identity has one ballot per key.';
COMMENT ON COLUMN identity.network IS
    'Keyed hash of the network of its latest session; no address is stored.';
COMMENT ON COLUMN identity.operated IS 'Opened with the operator''s key: network caps do not apply.';
COMMENT ON COLUMN identity.valid_in_row IS
    'Leases since its last one that failed a check; see kernelzoo.domain.trust.';
COMMENT ON COLUMN identity.failed_at IS
    'When a lease of its last failed a check; in quarantine until enough in a row are valid again.';
COMMENT ON COLUMN identity.attested IS
    'A verifier vouched for it: it may speak for classes other than its own.';
COMMENT ON COLUMN identity.renewed_at IS
    'When it last opened a session and its token was replaced; one issued a day before ends.';
COMMENT ON COLUMN identity.erased_at IS
    'When all that it had was erased. The empty row stays for a day, so that erasing identities '
    'does not let a network open more of them.';
CREATE INDEX identity_network ON identity (network, created_at);
CREATE INDEX identity_erased ON identity (erased_at) WHERE erased_at IS NOT NULL;
CREATE INDEX identity_operated ON identity (id) WHERE operated;
COMMENT ON INDEX identity_operated IS
    'Who is the operator''s of many identities, without a look at each of them.';

CREATE TABLE application (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    key_hash text NOT NULL CHECK (key_hash ~ '^[0-9a-f]{64}$'),
    origins text[] NOT NULL,
    jobs_per_day integer NOT NULL CHECK (jobs_per_day >= 0),
    sets integer NOT NULL CHECK (sets >= 0),
    workloads_per_set integer NOT NULL CHECK (workloads_per_set >= 0),
    disabled boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON COLUMN application.key_hash IS 'SHA-256 of the secret part of its key, which nobody keeps.';
COMMENT ON COLUMN application.origins IS 'Of the pages whose agents may open sessions in its name.';

CREATE TABLE application_set (
    name text PRIMARY KEY,
    application_id bigint NOT NULL REFERENCES application
);
COMMENT ON TABLE application_set IS 'Who owns a workload set; the operator, where it is not here.';
CREATE INDEX application_set_owner ON application_set (application_id);

CREATE TABLE application_job (
    application_id bigint NOT NULL REFERENCES application,
    job_id bigint NOT NULL REFERENCES tuning_job,
    asked_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (application_id, job_id)
);
COMMENT ON TABLE application_job IS 'Which jobs an application asked for; several may ask for one.';

CREATE TABLE application_workload (
    application_id bigint NOT NULL REFERENCES application,
    workload_key text NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (application_id, workload_key)
);
COMMENT ON TABLE application_workload IS
    'Workloads that were new when an application registered them in a set, for a day; those that no '
    'set and no job names any more are gone from `workload`, and still counted here.';

CREATE TABLE agent_session (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    identity_id uuid NOT NULL REFERENCES identity,
    device_id text NOT NULL REFERENCES device,
    device_class text NOT NULL,
    engine_name text NOT NULL,
    engine_version text NOT NULL,
    peak_gflops double precision NOT NULL,
    isolated boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    probe jsonb,
    application_id bigint REFERENCES application,
    network text NOT NULL DEFAULT '',
    target text NOT NULL GENERATED ALWAYS AS (target_of(device_class)) STORED
);
COMMENT ON COLUMN agent_session.peak_gflops IS
    'Register-only limit as probed in the page: of one core for wasm, of the whole GPU for webgpu.';
COMMENT ON COLUMN agent_session.probe IS
    'ProbeLevels or GpuProbeLevels of kernelzoo.domain.device; null where not told.';
COMMENT ON COLUMN agent_session.application_id IS 'In whose name; null where it measures for all.';
COMMENT ON COLUMN agent_session.network IS
    'Keyed hash of the network it was opened from; no address is stored.';
CREATE INDEX agent_session_device ON agent_session (device_id);
CREATE INDEX agent_session_identity ON agent_session (identity_id, device_class);
CREATE INDEX agent_session_recent ON agent_session (created_at);
CREATE INDEX agent_session_class ON agent_session (device_class, created_at);
CREATE INDEX agent_session_network ON agent_session (network, created_at);

CREATE FUNCTION count_crowd() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change record;
BEGIN
    -- Who opens a session while another of its is removed waits here, so that one sees the other.
    PERFORM FROM identity i WHERE i.id IN (SELECT identity_id FROM changed)
    ORDER BY i.id FOR NO KEY UPDATE;
    FOR change IN
        SELECT c.device_class, CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END AS sign,
               count(*) AS crowd, count(*) FILTER (WHERE NOT i.operated) AS strangers
        FROM (SELECT DISTINCT identity_id, device_class FROM changed) c
        JOIN identity i ON i.id = c.identity_id
        WHERE NOT EXISTS (
            SELECT FROM agent_session s
            WHERE s.identity_id = c.identity_id AND s.device_class = c.device_class
              AND s.id NOT IN (SELECT id FROM changed))
        GROUP BY c.device_class ORDER BY c.device_class
    LOOP
        UPDATE device_class d
        SET crowd = d.crowd + change.sign * change.crowd,
            strangers = d.strangers + change.sign * change.strangers
        WHERE d.device_class = change.device_class;
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION count_crowd IS
    'Counts the identities of a class, as the first session of one is opened and its last removed.';

CREATE TRIGGER session_counted AFTER INSERT ON agent_session REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_crowd();
CREATE TRIGGER session_counted_no_more AFTER DELETE ON agent_session
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_crowd();

CREATE TABLE lease (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id bigint NOT NULL REFERENCES agent_session,
    identity_id uuid NOT NULL REFERENCES identity,
    device_class text NOT NULL,
    job_id bigint NOT NULL REFERENCES tuning_job,
    reference_id text NOT NULL REFERENCES candidate,
    seed bigint NOT NULL CHECK (seed BETWEEN 0 AND 4294967295),
    nonce text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    answered boolean NOT NULL DEFAULT false,
    complete boolean NOT NULL DEFAULT false
);
COMMENT ON COLUMN lease.answered IS 'Everything on it was reported.';
COMMENT ON COLUMN lease.complete IS 'Once answered, its agent has done its share of the job.';
CREATE INDEX lease_identity ON lease (identity_id, expires_at);
CREATE INDEX lease_reference ON lease (device_class, reference_id);
CREATE INDEX lease_unanswered ON lease (device_class, expires_at) WHERE NOT answered;
CREATE INDEX lease_complete ON lease (identity_id, job_id, device_class) WHERE complete;
CREATE INDEX lease_recent ON lease (created_at);
CREATE INDEX lease_session ON lease (session_id);

CREATE TABLE lease_item (
    lease_id bigint NOT NULL REFERENCES lease,
    candidate_id text NOT NULL REFERENCES candidate,
    role text NOT NULL DEFAULT 'explore'
        CHECK (role IN ('explore', 'leader', 'few_runs', 'champion', 'control', 'validate')),
    PRIMARY KEY (lease_id, candidate_id)
);
COMMENT ON COLUMN lease_item.role IS 'Why it was lent; see kernelzoo.domain.lease. No agent is told.';

CREATE TABLE lending_quota (
    day date NOT NULL,
    scope text NOT NULL CHECK
        (scope IN ('class', 'key', 'network', 'network on class', 'network on key')),
    name text NOT NULL,
    candidates integer NOT NULL,
    PRIMARY KEY (day, scope, name)
);
COMMENT ON TABLE lending_quota IS
    'Candidates that strangers were lent on a day (UTC) in a network, on a device class, of a '
    'workload on a class, and of the latter two in a network: each is a measurement to store.';

CREATE TABLE measurement (
    lease_id bigint NOT NULL,
    candidate_id text NOT NULL,
    identity_id uuid NOT NULL REFERENCES identity,
    device_class text NOT NULL,
    outcome text NOT NULL
        CHECK (outcome IN ('ok', 'validate', 'compile', 'run', 'compare', 'timeout')),
    samples_ns double precision[] NOT NULL,
    reference_ns double precision[] NOT NULL,
    calls_per_sample integer NOT NULL,
    sampled_entries double precision[] NOT NULL,
    detail text NOT NULL,
    verdict text NOT NULL DEFAULT 'pending'
        CONSTRAINT measurement_verdict_check
        CHECK (verdict IN ('pending', 'verified', 'rejected', 'quarantined', 'unjudged')),
    best_ns double precision,
    created_at timestamptz NOT NULL DEFAULT now(),
    requeued_at timestamptz NOT NULL DEFAULT now(),
    relative_time double precision,
    retries integer NOT NULL DEFAULT 0,
    compile_ns double precision,
    optimise_ns double precision,
    pack_ns double precision,
    first_run_ns double precision,
    job_id bigint,
    PRIMARY KEY (lease_id, candidate_id),
    FOREIGN KEY (lease_id, candidate_id) REFERENCES lease_item,
    CONSTRAINT measurement_preparation_check
        CHECK (num_nulls(compile_ns, optimise_ns, pack_ns, first_run_ns) IN (0, 4))
);
COMMENT ON COLUMN measurement.verdict IS
    'rejected: its sampled entries are wrong; quarantined: right, of an identity that failed a check; '
    'unjudged: given up, as detail tells. Only what is verified counts; a failure is verified as told.';
COMMENT ON COLUMN measurement.retries IS 'How often judging it was begun again after it came to no end.';
COMMENT ON COLUMN measurement.best_ns IS 'Smallest of samples_ns; null for a failure.';
COMMENT ON COLUMN measurement.relative_time IS
    'best_ns over the smallest of reference_ns; null for a failure.';
COMMENT ON COLUMN measurement.compile_ns IS
    'Until the first call may begin. This and the next three are null where they were not told.';
COMMENT ON COLUMN measurement.optimise_ns IS
    'From the first call until the code is as fast as it gets; 0 where there is one tier.';
COMMENT ON COLUMN measurement.pack_ns IS 'Of weights into the layout that the kernel reads.';
COMMENT ON COLUMN measurement.job_id IS
    'The job of its lease; null where it was reported before there was this column.';
CREATE INDEX measurement_identity ON measurement (identity_id, device_class, candidate_id);
CREATE INDEX measurement_best ON measurement (candidate_id, best_ns);
CREATE INDEX measurement_candidate ON measurement (candidate_id, device_class, created_at)
    INCLUDE (lease_id, identity_id, outcome, verdict, best_ns, relative_time) WHERE lease_id > 0;
COMMENT ON INDEX measurement_candidate IS
    'For those of a candidate on a class, which lie scattered over the whole table: it has what is '
    'asked of them. Its condition, which all meet, keeps it from questions that do not name it: those '
    'for one identity would begin with everybody''s.';
CREATE INDEX measurement_latest ON measurement (candidate_id, created_at) INCLUDE (relative_time)
    WHERE outcome = 'ok' AND verdict = 'verified' AND relative_time IS NOT NULL;
COMMENT ON INDEX measurement_latest IS
    'For the latest times of a candidate on all classes. Its last condition keeps it from questions '
    'that do not name it: joins by lease would begin with candidates.';
CREATE INDEX measurement_pending ON measurement (requeued_at) WHERE verdict = 'pending';
CREATE INDEX measurement_set_aside ON measurement (created_at)
    WHERE verdict IN ('rejected', 'quarantined', 'unjudged');
CREATE INDEX measurement_failed ON measurement (candidate_id, device_class) INCLUDE (identity_id)
    WHERE outcome <> 'ok' AND verdict = 'verified';

CREATE TABLE candidate_time (
    workload_key text NOT NULL REFERENCES workload,
    candidate_id text NOT NULL REFERENCES candidate,
    relative_time double precision,
    PRIMARY KEY (workload_key, candidate_id)
);
COMMENT ON TABLE candidate_time IS
    'What devices of all classes measured of a candidate lately: the median of its latest verified '
    'relative times, as of the last count of ballots of its workload on any class; null where none '
    'counts.';

CREATE TABLE ballot (
    identity_id uuid NOT NULL REFERENCES identity,
    workload_key text NOT NULL REFERENCES workload,
    device_class text NOT NULL,
    candidate_ids text[] NOT NULL,
    relative_times double precision[] NOT NULL,
    filed_at timestamptz NOT NULL DEFAULT now(),
    requeued_at timestamptz NOT NULL DEFAULT now(),
    tallied boolean NOT NULL DEFAULT false,
    device_id text NOT NULL GENERATED ALWAYS AS (device_id_of(device_class)) STORED,
    target text NOT NULL GENERATED ALWAYS AS (target_of(device_class)) STORED,
    in_tokens boolean NOT NULL DEFAULT false,
    paired boolean NOT NULL DEFAULT false,
    PRIMARY KEY (identity_id, workload_key, device_class),
    CHECK (cardinality(candidate_ids) BETWEEN 1 AND 8),
    CHECK (cardinality(candidate_ids) = cardinality(relative_times))
);
COMMENT ON TABLE ballot IS 'The latest ballot of an identity for a key, fastest kernel first.';
COMMENT ON COLUMN ballot.in_tokens IS
    'Whether the fastest were timed within whole tokens of a language model, too.';
COMMENT ON COLUMN ballot.paired IS
    'Whether its times are of rounds in which all of its kernels and the reference took turns.';
CREATE INDEX ballot_key ON ballot (workload_key, device_class);
CREATE INDEX ballot_waiting ON ballot (requeued_at) WHERE NOT tallied;

CREATE TABLE waiting_tally (
    workload_key text NOT NULL REFERENCES workload ON DELETE CASCADE,
    device_class text NOT NULL,
    requeued_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (workload_key, device_class)
);
COMMENT ON TABLE waiting_tally IS
    'Keys whose ballots a message asks to count, since when: who finds one sends no other. The tally '
    'that takes the message removes the row before it reads a ballot.';

CREATE TABLE zoo_entry (
    workload_key text NOT NULL REFERENCES workload,
    device_class text NOT NULL,
    version integer NOT NULL CHECK (version > 0),
    candidate_id text NOT NULL REFERENCES candidate,
    state text NOT NULL CHECK (state IN ('provisional', 'confirmed', 'retired')),
    ballots integer NOT NULL,
    weight integer NOT NULL,
    total_weight integer NOT NULL,
    relative_time double precision NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now(),
    reason text NOT NULL DEFAULT '',
    served boolean NOT NULL DEFAULT false,
    aggregated boolean NOT NULL DEFAULT false,
    engines jsonb NOT NULL DEFAULT '[]',
    speaks boolean NOT NULL DEFAULT false,
    contenders text[] NOT NULL DEFAULT '{}',
    final boolean NOT NULL DEFAULT false,
    device_id text NOT NULL GENERATED ALWAYS AS (device_id_of(device_class)) STORED,
    rho text NOT NULL GENERATED ALWAYS AS (rho_of(device_class)) STORED,
    target text NOT NULL GENERATED ALWAYS AS (target_of(device_class)) STORED,
    rank integer CHECK (rank > 0),
    spread double precision CHECK (spread >= 0),
    PRIMARY KEY (workload_key, device_class, version)
);
COMMENT ON TABLE zoo_entry IS 'The kernel dataset of nnJIT section 5.3, with its history.';
COMMENT ON COLUMN zoo_entry.reason IS
    'Why this version replaced the one before, where that was more than a vote.';
COMMENT ON COLUMN zoo_entry.served IS 'Published as confirmed: pages were served it, while it lived.';
COMMENT ON COLUMN zoo_entry.aggregated IS 'Whether common_kernel knows of this state of the entry.';
COMMENT ON COLUMN zoo_entry.engines IS
    'Of the counted ballots: engines, their major versions, and how many ballots of each.';
COMMENT ON COLUMN zoo_entry.speaks IS
    'Whether other classes are told of it; see services.aggregator.speakers. Set where it is aggregated.';
COMMENT ON COLUMN zoo_entry.contenders IS
    'Measured faster than this by more than the noise, by too few to say so: they are lent to more.';
COMMENT ON COLUMN zoo_entry.final IS
    'A quorum has voted, all that the class can run is measured, and nothing contends.';
COMMENT ON COLUMN zoo_entry.rank IS
    'Place of its time among those of all kernels that voters measured, from 1; null of before.';
COMMENT ON COLUMN zoo_entry.spread IS
    'How far apart the middle half of the voters find it, as a share of its time; null of one voter.';
CREATE UNIQUE INDEX zoo_entry_live ON zoo_entry (workload_key, device_class)
    WHERE state <> 'retired';
CREATE INDEX zoo_entry_unaggregated ON zoo_entry (workload_key) WHERE NOT aggregated;
CREATE INDEX zoo_entry_device ON zoo_entry (device_id, workload_key) WHERE state = 'confirmed';
CREATE INDEX zoo_entry_recent ON zoo_entry (published_at);
CREATE INDEX zoo_entry_listed ON zoo_entry (published_at, workload_key, device_class)
    WHERE state <> 'retired';

CREATE TABLE kernel_by_runs (
    workload_key text NOT NULL,
    device_class text NOT NULL,
    version integer NOT NULL,
    candidate_id text NOT NULL REFERENCES candidate,
    runs integer CHECK (runs > 0),
    compile_ns double precision NOT NULL,
    optimise_ns double precision NOT NULL,
    pack_ns double precision NOT NULL,
    first_run_ns double precision NOT NULL,
    run_ns double precision NOT NULL,
    voters integer NOT NULL CHECK (voters > 0),
    PRIMARY KEY (workload_key, device_class, version, candidate_id),
    FOREIGN KEY (workload_key, device_class, version) REFERENCES zoo_entry
);
COMMENT ON TABLE kernel_by_runs IS
    'What the kernel of a live entry costs a page, and other kernels that cost less together with '
    'few runs: medians over voters, as services.aggregator.by_runs decides.';
COMMENT ON COLUMN kernel_by_runs.runs IS
    'It is the best for up to so many runs; null for the kernel of the entry, which is for all more.';

CREATE TABLE denied (
    artifact_sha256 text NOT NULL REFERENCES artifact,
    device_class text NOT NULL,
    denied boolean NOT NULL,
    stage text NOT NULL,
    evidence text NOT NULL,
    operated boolean NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT now(),
    device_wide boolean NOT NULL DEFAULT false,
    device_id text NOT NULL GENERATED ALWAYS AS (device_id_of(device_class)) STORED,
    PRIMARY KEY (artifact_sha256, device_class)
);
COMMENT ON TABLE denied IS
    'Artifacts that a class of devices is never served or lent; and those that the operator allowed, '
    'which no crowd may deny again.';
COMMENT ON COLUMN denied.operated IS 'Decided by the operator, not by failures that were counted.';
COMMENT ON COLUMN denied.device_wide IS
    'Whether other classes of the device get it as their default only where they have no other.';
CREATE INDEX denied_class ON denied (device_class) WHERE denied;
CREATE INDEX denied_device ON denied (device_id) WHERE denied;

CREATE TABLE publication (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    serial bigint NOT NULL
);
COMMENT ON TABLE publication IS 'One row: how far what is served has come.';
COMMENT ON COLUMN publication.serial IS
    'Grows with every kernel that is confirmed, offered, retired, denied or allowed; of seconds since '
    '1970 where changes are rarer, so that a database that is made anew is not behind the one before.';

CREATE FUNCTION publish_serial() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE publication
    SET serial = greatest(serial + 1, extract(epoch FROM clock_timestamp())::bigint);
    RETURN NULL;
END
$$;

CREATE TRIGGER zoo_entry_confirmed AFTER INSERT ON zoo_entry
    FOR EACH ROW WHEN (NEW.state = 'confirmed') EXECUTE FUNCTION publish_serial();
CREATE TRIGGER zoo_entry_served AFTER UPDATE OF state ON zoo_entry
    FOR EACH ROW WHEN (OLD.state <> NEW.state AND 'confirmed' IN (OLD.state, NEW.state))
    EXECUTE FUNCTION publish_serial();
CREATE TRIGGER kernel_offered AFTER INSERT ON kernel_by_runs
    FOR EACH ROW WHEN (NEW.runs IS NOT NULL) EXECUTE FUNCTION publish_serial();
CREATE TRIGGER kernel_offered_no_more AFTER DELETE ON kernel_by_runs
    FOR EACH ROW WHEN (OLD.runs IS NOT NULL) EXECUTE FUNCTION publish_serial();
CREATE TRIGGER kernel_offered_otherwise AFTER UPDATE OF runs ON kernel_by_runs
    FOR EACH ROW WHEN (OLD.runs IS DISTINCT FROM NEW.runs) EXECUTE FUNCTION publish_serial();
CREATE TRIGGER denied_decided AFTER INSERT OR UPDATE OR DELETE ON denied
    FOR EACH ROW EXECUTE FUNCTION publish_serial();

CREATE FUNCTION tell_denied() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('kernelzoo_denied', NEW.artifact_sha256 || chr(10) || NEW.device_class);
    -- Gateways of 0.1.0 listen to this alone.
    PERFORM pg_notify('kernelzoo_zoo', '');
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION tell_denied IS
    'Makes gateways forget all manifests they hold, and caches before them those of the device.';

CREATE TRIGGER denied_told AFTER INSERT ON denied
    FOR EACH ROW WHEN (NEW.denied) EXECUTE FUNCTION tell_denied();
CREATE TRIGGER denied_told_anew AFTER UPDATE ON denied
    FOR EACH ROW WHEN (NEW.denied AND (NEW.decided_at <> OLD.decided_at
                                       OR NEW.device_wide AND NOT OLD.device_wide))
    EXECUTE FUNCTION tell_denied();

CREATE TABLE page_failure (
    artifact_sha256 text NOT NULL REFERENCES artifact,
    device_class text NOT NULL,
    network text NOT NULL,
    workload_key text NOT NULL REFERENCES workload,
    stage text NOT NULL
        CHECK (stage IN ('validate', 'compile', 'run', 'compare', 'timeout')),
    detail text NOT NULL,
    reported_at timestamptz NOT NULL DEFAULT now(),
    requeued_at timestamptz NOT NULL DEFAULT now(),
    tallied boolean NOT NULL DEFAULT false,
    trust text NOT NULL DEFAULT 'crowd' CHECK (trust IN ('operator', 'applications', 'crowd')),
    PRIMARY KEY (artifact_sha256, device_class, network)
);
COMMENT ON TABLE page_failure IS
    'Served kernels that failed in a visitor''s page; a network has one voice for each.';
CREATE INDEX page_failure_network ON page_failure (network, reported_at);
CREATE INDEX page_failure_waiting ON page_failure (requeued_at) WHERE NOT tallied;
CREATE INDEX page_failure_key ON page_failure (workload_key, device_class);

CREATE TABLE lost_device (
    device_class text NOT NULL,
    workload_key text NOT NULL REFERENCES workload ON DELETE CASCADE,
    why text NOT NULL,
    lost_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE lost_device IS
    'Browsers of the operator''s fleet that were ended at a workload: their GPU no longer answered, '
    'or they took too much memory.';
CREATE INDEX lost_device_of ON lost_device (workload_key, device_class, lost_at);

CREATE FUNCTION skipping(key text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT device_class FROM lost_device
    WHERE workload_key = $1 AND lost_at > now() - interval '7 days'
    GROUP BY device_class HAVING count(*) >= 2 ORDER BY device_class
$$;
COMMENT ON FUNCTION skipping IS
    'Classes that are lent nothing of a workload: two of their devices were lost at it within seven '
    'days.';

CREATE FUNCTION is_trusted(trust text, operated boolean, application_id bigint)
    RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT $2 OR $1 = 'crowd' OR $1 = 'applications' AND $3 IS NOT NULL
$$;
COMMENT ON FUNCTION is_trusted IS
    'Whether a zoo with this KERNELZOO_TRUST counts what an identity measured in a session of this '
    'application, or of none.';

CREATE FUNCTION trust_covers(trust text, taken_under text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT array_position(ARRAY['operator', 'applications', 'crowd'], $2)
        <= array_position(ARRAY['operator', 'applications', 'crowd'], $1)
$$;
COMMENT ON FUNCTION trust_covers IS
    'Whether a zoo with this KERNELZOO_TRUST counts what was taken under that one.';

CREATE FUNCTION is_denied(candidate_id text, device_class text)
    RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM candidate c JOIN denied d ON d.artifact_sha256 = c.artifact_sha256
        WHERE c.candidate_id = $1 AND d.device_class = $2 AND d.denied)
$$;
COMMENT ON FUNCTION is_denied IS 'Whether devices of this class must never run this kernel.';

CREATE FUNCTION tried(candidate_id text, device_class text)
    RETURNS TABLE (identity_id uuid, lease_id bigint, outcome text, created_at timestamptz)
    LANGUAGE sql STABLE AS $$
    SELECT m.identity_id, m.lease_id, m.outcome, m.created_at FROM measurement m
    WHERE m.candidate_id = $1 AND m.device_class = $2
      AND m.verdict = 'verified' AND m.lease_id > 0
    UNION ALL
    (SELECT m.identity_id, m.lease_id, m.outcome, m.created_at
     FROM lease l JOIN measurement m ON m.lease_id = l.id
     WHERE l.device_class = $2 AND l.reference_id = $1
       AND m.outcome = 'ok' AND m.verdict = 'verified'
     ORDER BY l.id DESC LIMIT 4096)
$$;
COMMENT ON FUNCTION tried IS
    'Who ran a kernel on a class, and how that ended: verified measurements of it, and the latest of '
    'those that were made beside it.';

CREATE FUNCTION space_of(target text, device_id text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN target <> 'webgpu' THEN ''
                ELSE coalesce((SELECT d.gpu_model FROM device d WHERE d.device_id = $2), 'any') END
$$;
COMMENT ON FUNCTION space_of IS 'The space in which a device is measured; a stranger''s GPU is any.';

CREATE FUNCTION default_kernel(workload_key text, device_class text)
    RETURNS TABLE (job_id bigint, candidate_id text, state text) LANGUAGE sql STABLE AS $$
    SELECT j.id, coalesce(first.candidate_id, last.candidate_id), coalesce(first.state, last.state)
    FROM tuning_job j
    -- A space in the order of promise, so that its first that fits is found before the others are
    -- looked up.
    LEFT JOIN LATERAL (
        SELECT c.candidate_id, c.state
        FROM (SELECT p.candidate_id, p.ordinal FROM space_point p
              WHERE p.job_id = j.id ORDER BY p.ordinal) p
        JOIN candidate c ON c.candidate_id = p.candidate_id
        WHERE c.state <> 'failed'
          AND c.requires <@ features_of($2)
          AND NOT EXISTS (
            SELECT FROM denied d
            WHERE d.artifact_sha256 = c.artifact_sha256 AND d.denied
              AND (d.device_class = $2 OR d.device_wide
                   AND d.device_id = device_id_of($2)))
        ORDER BY p.ordinal LIMIT 1
    ) first ON true
    LEFT JOIN LATERAL (
        SELECT c.candidate_id, c.state
        FROM (SELECT p.candidate_id, p.ordinal FROM space_point p
              WHERE p.job_id = j.id ORDER BY p.ordinal) p
        JOIN candidate c ON c.candidate_id = p.candidate_id
        WHERE first.candidate_id IS NULL AND c.state <> 'failed'
          AND c.requires <@ features_of($2)
          AND NOT is_denied(c.candidate_id, $2)
        ORDER BY p.ordinal LIMIT 1
    ) last ON true
    WHERE j.workload_key = $1 AND j.target = target_of($2) AND j.state = 'planned'
      AND j.space IN ('any', space_of(target_of($2), device_id_of($2)))
      AND coalesce(first.candidate_id, last.candidate_id) IS NOT NULL
    ORDER BY coalesce(first.state, last.state) <> 'compiled', j.space = 'any' LIMIT 1
$$;
COMMENT ON FUNCTION default_kernel IS
    'The most promising candidate that a class can run, that did not fail, is not denied to it and, '
    'while there is another, not to its device: of its space, or of any GPU until its own is '
    'compiled. Leases name it as reference, ballots are relative to it, and a device unknown to the '
    'zoo is served it once it is compiled.';

CREATE FUNCTION engine_major(version text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(substring($1 FROM '^[0-9]{1,6}')::integer, 0)
$$;
COMMENT ON FUNCTION engine_major IS 'As kernelzoo.domain.device.Engine.major; 0 where it has none.';

CREATE FUNCTION is_outdated(session_id bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM agent_session s
        JOIN agent_session n ON n.identity_id = s.identity_id
         AND n.device_class = s.device_class AND n.engine_name = s.engine_name
         AND engine_major(n.engine_version) > engine_major(s.engine_version)
        WHERE s.id = $1)
$$;
COMMENT ON FUNCTION is_outdated IS
    'Whether the identity of a session has come back with a newer major version of its engine.';

CREATE FUNCTION kernel_time(candidate_id text, device_class text)
    RETURNS TABLE (best_ns double precision, identities bigint) LANGUAGE sql STABLE AS $$
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY best), count(*)
    FROM (
        SELECT min(latest.best_ns) AS best FROM (
            SELECT m.identity_id, m.best_ns FROM measurement m
            WHERE m.candidate_id = $1 AND m.device_class = $2
              AND m.outcome = 'ok' AND m.verdict = 'verified' AND m.lease_id > 0
            ORDER BY m.created_at DESC LIMIT 64
        ) latest
        GROUP BY latest.identity_id
    ) AS by_identity
$$;
COMMENT ON FUNCTION kernel_time IS
    'Median over identities of each one''s best verified time, in the latest 64 measurements; null and '
    '0 without any.';

CREATE FUNCTION relative_preparation(m measurement) RETURNS double precision
    LANGUAGE sql IMMUTABLE AS $$
    SELECT (m.compile_ns + m.pack_ns + greatest(0, m.first_run_ns - m.best_ns))
           * m.relative_time / m.best_ns
$$;
COMMENT ON FUNCTION relative_preparation IS
    'What a page pays for a kernel beside warm runs, in runs of the reference kernel; null for a '
    'failure and where it was not told.';

CREATE TABLE cost_model (
    version integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sha256 text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    body bytea NOT NULL,
    published boolean NOT NULL,
    reason text NOT NULL,
    evaluation jsonb NOT NULL,
    measurements bigint NOT NULL,
    trained_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE cost_model IS 'Every model that was trained. The latest published one is served.';
COMMENT ON COLUMN cost_model.measurements IS
    'Measurements that had been judged when it was trained, those that were removed since among them.';
CREATE INDEX cost_model_served ON cost_model (version) WHERE published;

CREATE TABLE evaluation_order (
    job_id bigint NOT NULL REFERENCES tuning_job,
    device_class text NOT NULL,
    model_version integer NOT NULL,
    candidate_ids text[] NOT NULL,
    ordered_at timestamptz NOT NULL DEFAULT now(),
    costs double precision[],
    PRIMARY KEY (job_id, device_class)
);
COMMENT ON TABLE evaluation_order IS 'What a device class measures first, as a model foretells it.';
COMMENT ON COLUMN evaluation_order.model_version IS '0: by promise and outside evidence alone.';
COMMENT ON COLUMN evaluation_order.costs IS
    'What the model foretells of each candidate: log2 of its time, of which differences count. Null without a model.';

CREATE TABLE outside_evidence (
    source text NOT NULL,
    candidate_id text NOT NULL REFERENCES candidate,
    device text NOT NULL,
    relative_time double precision NOT NULL CHECK (relative_time > 0),
    imported_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (source, candidate_id, device)
);
COMMENT ON TABLE outside_evidence IS 'What files of other tuners claim. It seeds the order of evaluation and is never counted.';
COMMENT ON COLUMN outside_evidence.relative_time IS 'Over the fastest that the source names for the workload.';
CREATE INDEX outside_evidence_candidate ON outside_evidence (candidate_id);

CREATE TABLE page_load (
    name text NOT NULL,
    device_class text NOT NULL,
    loads bigint NOT NULL,
    last_at timestamptz NOT NULL DEFAULT now(),
    target text NOT NULL GENERATED ALWAYS AS (target_of(device_class)) STORED,
    covered_at timestamptz,
    PRIMARY KEY (name, device_class)
);
COMMENT ON TABLE page_load IS
    'Manifests that gateways answered, those lost in a crash or kept by caches not among them.';
COMMENT ON COLUMN page_load.covered_at IS 'When its loads were last added to coverage.';
COMMENT ON COLUMN page_load.name IS
    'A workload set or a workload''s key, as the page asked, or ''model:'' and the name of a model.';

CREATE TABLE model (
    name text PRIMARY KEY CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
    source text NOT NULL,
    added_at timestamptz NOT NULL DEFAULT now(),
    source_graph text CHECK (source_graph ~ '^[0-9a-f]{64}$'),
    source_weights text CHECK (source_weights ~ '^[0-9a-f]{64}$'),
    CHECK ((source_graph IS NULL) = (source_weights IS NULL))
);
COMMENT ON TABLE model IS
    'Networks that pages run whole. Plans, weights and golden outputs are files by their hash '
    '(services/gateway/blobs.py).';
COMMENT ON COLUMN model.source IS 'The file that it was imported from, as whoever did says.';
COMMENT ON COLUMN model.source_graph IS
    'The hash of the file without its weights (services/tuner/graph/source_hashes.py); null where none was told.';
COMMENT ON COLUMN model.source_weights IS 'The hash of the weights of that file.';
CREATE INDEX model_source_graph ON model (source_graph);

CREATE TABLE model_plan (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    model text NOT NULL REFERENCES model ON DELETE CASCADE,
    position integer NOT NULL,
    dimensions jsonb NOT NULL,
    plan_sha256 text NOT NULL CHECK (plan_sha256 ~ '^[0-9a-f]{64}$'),
    plan_bytes bigint NOT NULL,
    weights_sha256 text CHECK (weights_sha256 ~ '^[0-9a-f]{64}$'),
    weights_bytes bigint NOT NULL,
    weights_url text NOT NULL DEFAULT '',
    golden_sha256 text NOT NULL CHECK (golden_sha256 ~ '^[0-9a-f]{64}$'),
    golden_bytes bigint NOT NULL,
    f16 boolean NOT NULL DEFAULT false,
    original_sha256 text CHECK (original_sha256 ~ '^[0-9a-f]{64}$'),
    original_bytes bigint NOT NULL DEFAULT 0,
    precision text NOT NULL DEFAULT 'f32' CHECK (precision IN ('f32', 'int8')),
    UNIQUE (model, dimensions, f16, precision),
    UNIQUE (model, position),
    CHECK ((weights_sha256 IS NULL) = (weights_url <> ''))
);
COMMENT ON COLUMN model_plan.dimensions IS 'What the model leaves open, as {"batch": 1, "sequence": 128}.';
COMMENT ON COLUMN model_plan.f16 IS
    'Whether its values are f16 in memory: pages with WebGPU are given it, others the plan of f32.';
COMMENT ON COLUMN model_plan.precision IS
    'What its products multiply: numbers of f32, or bytes. Pages are given the faster, or what they ask for.';
COMMENT ON COLUMN model_plan.original_sha256 IS
    'The file that says which weights lie in the file that the model was imported from (services/tuner/graph/original_map.py).';
COMMENT ON COLUMN model_plan.weights_url IS 'Where the author keeps the weights; '''' where the zoo does.';

CREATE TABLE model_workload (
    plan_id bigint NOT NULL REFERENCES model_plan ON DELETE CASCADE,
    position integer NOT NULL,
    workload_key text NOT NULL REFERENCES workload,
    calls integer NOT NULL CHECK (calls >= 0),
    PRIMARY KEY (plan_id, position),
    UNIQUE (plan_id, workload_key)
);
COMMENT ON TABLE model_workload IS
    'The kernels of a plan in its order, and how often an inference of its largest extents calls each: 0 for kernels of shorter ones.';
CREATE INDEX model_workload_key ON model_workload (workload_key);

CREATE TABLE wrong_output (
    plan_id bigint NOT NULL REFERENCES model_plan ON DELETE CASCADE,
    device_class text NOT NULL,
    network text NOT NULL,
    output text NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (plan_id, device_class, network)
);
COMMENT ON TABLE wrong_output IS
    'Plans whose golden outputs a visitor''s page computed wrongly although it ran default kernels; a '
    'network has one voice for each class. They inform the operator and decide nothing.';
COMMENT ON COLUMN wrong_output.output IS 'The first output that was wrong, as the network said last.';
CREATE INDEX wrong_output_network ON wrong_output (network, first_at);

CREATE TABLE linked_module (
    sha256 text PRIMARY KEY REFERENCES artifact,
    linked_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE linked_module IS
    'Artifacts that hold the kernels of a plan for some class. They are made anew when they are gone.';
COMMENT ON COLUMN linked_module.linked_at IS 'When a gateway last named it, to the day.';
CREATE INDEX linked_module_age ON linked_module (linked_at);

CREATE TABLE coverage (
    workload_key text NOT NULL REFERENCES workload ON DELETE CASCADE,
    device_class text NOT NULL,
    state text NOT NULL DEFAULT 'missing'
        CHECK (state IN ('missing', 'provisional', 'confirmed')),
    loads bigint NOT NULL DEFAULT 0,
    relative_time double precision,
    candidate_id text,
    best_ns double precision,
    reference_ns double precision,
    noted_at timestamptz,
    target text NOT NULL GENERATED ALWAYS AS (target_of(device_class)) STORED,
    PRIMARY KEY (workload_key, device_class)
);
COMMENT ON TABLE coverage IS
    'Keys that have an entry, were measured or asked for by pages: the live entry or ''missing'' in '
    'its place, and the page loads that asked for it. A key that is none of these has no row.';
COMMENT ON COLUMN coverage.loads IS 'As the clock last added them up; page_load has them as they come.';
COMMENT ON COLUMN coverage.best_ns IS
    'kernel_time of the live entry when its ballots were last counted; null without an entry.';
COMMENT ON COLUMN coverage.reference_ns IS
    'Of the default kernel beside others, the median of the latest, when ballots were last counted.';
COMMENT ON COLUMN coverage.noted_at IS
    'When its times were last looked up; null where only an upgrade or page loads made the row, and '
    'the clock has yet to do so.';
CREATE INDEX coverage_unnoted ON coverage (state) WHERE noted_at IS NULL;
CREATE INDEX coverage_class ON coverage (device_class);
CREATE INDEX coverage_unconfirmed ON coverage (loads DESC) WHERE state <> 'confirmed';
CREATE INDEX coverage_live ON coverage (workload_key, target) INCLUDE (best_ns)
    WHERE state <> 'missing';

CREATE FUNCTION cover_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state = 'retired' THEN
        UPDATE coverage
        SET state = 'missing', relative_time = NULL, candidate_id = NULL, best_ns = NULL
        WHERE workload_key = NEW.workload_key AND device_class = NEW.device_class;
    ELSE
        INSERT INTO coverage
            (workload_key, device_class, state, relative_time, candidate_id, best_ns, reference_ns,
             noted_at)
        SELECT NEW.workload_key, NEW.device_class, NEW.state, NEW.relative_time, NEW.candidate_id,
               t.best_ns, reference_time(NEW.workload_key, NEW.device_class), now()
        FROM kernel_time(NEW.candidate_id, NEW.device_class) t
        ON CONFLICT (workload_key, device_class) DO UPDATE SET
            state = EXCLUDED.state, relative_time = EXCLUDED.relative_time,
            candidate_id = EXCLUDED.candidate_id, best_ns = EXCLUDED.best_ns,
            reference_ns = EXCLUDED.reference_ns, noted_at = EXCLUDED.noted_at;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION cover_entry IS 'Brings the row of coverage up to date that an entry is of.';

CREATE TRIGGER zoo_entry_covered AFTER INSERT OR UPDATE OF state, relative_time ON zoo_entry
    FOR EACH ROW EXECUTE FUNCTION cover_entry();

CREATE FUNCTION expected_time(workload_key text, device_class text)
    RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT coalesce(c.best_ns, c.reference_ns) FROM coverage c
    WHERE c.workload_key = $1 AND c.device_class = $2
$$;
COMMENT ON FUNCTION expected_time IS
    'Nanoseconds of one call on a class: of the kernel of its live entry, or of the default kernel as '
    'it was measured beside others; null where nobody has measured either. As of the last count of '
    'ballots.';

CREATE FUNCTION asked_workloads(name text) RETURNS TABLE (workload_key text)
    LANGUAGE sql STABLE AS $$
    SELECT w.key FROM workload w WHERE w.key = $1
    UNION
    SELECT s.workload_key FROM workload_set s WHERE s.name = $1
    UNION
    SELECT w.workload_key FROM model_plan p JOIN model_workload w ON w.plan_id = p.id
    WHERE 'model:' || p.model = $1
$$;
COMMENT ON FUNCTION asked_workloads IS
    'Workloads whose kernels a page asks for by a name, as page_load has it.';

CREATE VIEW model_coverage AS
    WITH planned AS (
        SELECT m.plan_id, count(*) AS workloads, sum(m.calls * w.flops) AS flops
        FROM model_workload m JOIN workload w ON w.key = m.workload_key GROUP BY m.plan_id
    ), entered AS (
        SELECT m.plan_id, e.device_class, e.state, m.calls * w.flops AS flops
        FROM model_workload m
        JOIN workload w ON w.key = m.workload_key
        JOIN zoo_entry e ON e.workload_key = m.workload_key AND e.state <> 'retired'
            AND e.target = 'wasm'
    ), found AS (
        SELECT plan_id, device_class, count(*) FILTER (WHERE state = 'confirmed') AS confirmed,
               count(*) FILTER (WHERE state = 'provisional') AS provisional,
               sum(flops) FILTER (WHERE state = 'confirmed') AS confirmed_flops
        FROM entered GROUP BY plan_id, device_class
    ), class AS (
        SELECT p.id AS plan_id, c.device_class
        FROM model_plan p CROSS JOIN device_class c WHERE c.target = 'wasm'
        UNION
        SELECT p.id, l.device_class
        FROM model_plan p JOIN page_load l ON l.name = 'model:' || p.model AND l.target = 'wasm'
        UNION
        SELECT plan_id, device_class FROM found
    )
    SELECT p.model, p.dimensions, p.position, class.device_class, planned.workloads,
           coalesce(found.confirmed, 0) AS confirmed,
           coalesce(found.provisional, 0) AS provisional,
           (found.confirmed_flops / planned.flops)::double precision AS confirmed_flops,
           coalesce(l.loads, 0) AS loads
    FROM class
    JOIN model_plan p ON p.id = class.plan_id
    JOIN planned ON planned.plan_id = class.plan_id
    LEFT JOIN found ON found.plan_id = class.plan_id AND found.device_class = class.device_class
    LEFT JOIN page_load l ON l.name = 'model:' || p.model AND l.device_class = class.device_class;
COMMENT ON VIEW model_coverage IS
    'Every plan of a model on every class of devices that ran an agent or asked for it: how many of '
    'its workloads are confirmed, which share of its floating-point operations they are, and the page '
    'loads of the model.';

CREATE VIEW wrong_model AS
    SELECT p.model, p.dimensions, p.f16, w.device_class, count(*) AS networks,
           array_agg(DISTINCT w.output ORDER BY w.output) AS outputs,
           min(w.first_at) AS since, max(w.last_at) AS last_at, p.precision
    FROM wrong_output w JOIN model_plan p ON p.id = w.plan_id
    WHERE w.last_at > now() - interval '30 days'
    GROUP BY p.id, w.device_class;
COMMENT ON VIEW wrong_model IS
    'Plans that pages of a class found wrong with default kernels, on how many networks and since when; '
    'what nobody has said again for 30 days is left out.';

CREATE FUNCTION model_time(plan_id bigint, device_class text)
    RETURNS TABLE (elapsed_ns double precision, measured double precision)
    LANGUAGE sql STABLE AS $$
    WITH timed AS (
        SELECT m.calls, w.flops, expected_time(m.workload_key, $2) AS ns
        FROM model_workload m JOIN workload w ON w.key = m.workload_key
        WHERE m.plan_id = $1
    ), rate AS (
        SELECT sum(calls * ns) / sum(calls * flops) AS ns_per_flop
        FROM timed WHERE ns IS NOT NULL
    )
    SELECT sum(calls * coalesce(ns, flops * ns_per_flop)),
           coalesce(sum(calls * flops) FILTER (WHERE ns IS NOT NULL) / sum(calls * flops), 0)
               ::double precision
    FROM timed CROSS JOIN rate
$$;
COMMENT ON FUNCTION model_time IS
    'Nanoseconds of an inference as the sum of its calls, and which share of its floating-point '
    'operations was measured; the rest is taken to run as fast. Null while nothing is measured.';

CREATE FUNCTION operation_of(workload_key text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT split_part($1, ':', 1) || ':' || split_part($1, ':', 2) || ':' || split_part($1, ':', 4)
$$;
COMMENT ON FUNCTION operation_of IS 'A workload key without its extents.';

CREATE FUNCTION rho_distance(one text, other text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN split_part($1, '-', 1) = split_part($2, '-', 1) AND length($1) = length($2)
                THEN bit_count(split_part($1, '-', 2)::varbit # split_part($2, '-', 2)::varbit)
                ELSE 65 END::integer
$$;
COMMENT ON FUNCTION rho_distance IS
    'Bits in which two primitive vectors differ; 65, more than any, where their suites differ.';

CREATE FUNCTION servable(workload_keys text[], device_class text, space text)
    RETURNS TABLE (workload_key text, candidate_id text, config jsonb) LANGUAGE sql STABLE AS $$
    SELECT c.workload_key, c.candidate_id, c.config FROM candidate c
    WHERE c.workload_key = ANY ($1) AND c.target = target_of($2) AND c.state = 'compiled'
      -- So PostgreSQL expects half of them, where of <@ alone it expects 1 in 200.
      AND (c.requires <@ features_of($2)) IS DISTINCT FROM false
      AND c.artifact_sha256 NOT IN (
        SELECT d.artifact_sha256 FROM denied d WHERE d.device_class = $2 AND d.denied)
      -- As a value, which is hashed: joined, each candidate is looked up by its id. And an array,
      -- or the points of all jobs are read.
      AND (c.candidate_id IN (
        SELECT p.candidate_id FROM tuning_job j
        CROSS JOIN LATERAL unnest(ARRAY(
            SELECT p.candidate_id FROM space_point p WHERE p.job_id = j.id)) AS p (candidate_id)
        WHERE j.workload_key = ANY ($1) AND j.target = target_of($2) AND j.space IN ($3, 'any')
      )) IS TRUE
$$;
COMMENT ON FUNCTION servable(text[], text, text) IS
    'Kernels of these workloads that a page of this device class can be given on the word of others: '
    'compiled, within its features, not denied to it, and of its space or that of any GPU.';

CREATE FUNCTION servable(workload_key text, device_class text, space text)
    RETURNS TABLE (candidate_id text, config jsonb) LANGUAGE sql STABLE AS $$
    SELECT s.candidate_id, s.config FROM servable(ARRAY[$1], $2, $3) s
$$;
COMMENT ON FUNCTION servable(text, text, text) IS
    'For gateways and workers of the version before 0075, which serve while the database is upgraded.';

CREATE TABLE common_kernel (
    workload_key text NOT NULL REFERENCES workload,
    scope text NOT NULL CHECK (scope IN ('architecture', 'vendor', 'common')),
    family text NOT NULL,
    rho text NOT NULL,
    candidate_id text NOT NULL REFERENCES candidate,
    relative_time double precision NOT NULL CHECK (relative_time >= 1),
    classes integer NOT NULL CHECK (classes > 0),
    identities integer NOT NULL CHECK (identities > 0),
    PRIMARY KEY (workload_key, candidate_id, scope, family, rho)
);
COMMENT ON TABLE common_kernel IS
    'Winners of some class by how they do on all classes of a family that have the same primitive '
    'vector. Made from confirmed entries and may be made again at any time.';
COMMENT ON COLUMN common_kernel.family IS
    'An architecture or a vendor, as kernelzoo.domain.kinship writes it; '''' for all classes.';
COMMENT ON COLUMN common_kernel.relative_time IS
    'Over the fastest known, as expected on one more class of the group.';
COMMENT ON COLUMN common_kernel.identities IS 'That measured it, over all these classes.';

CREATE FUNCTION is_for(application_id bigint, workload_key text)
    RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT $1 IS NULL OR EXISTS (
        SELECT FROM application_set a JOIN workload_set s ON s.name = a.name
        WHERE a.application_id = $1 AND s.workload_key = $2)
$$;
COMMENT ON FUNCTION is_for IS 'Whether a session in this name measures a workload; in none, it measures all.';

CREATE FUNCTION accept_report(
    of_lease bigint, by_identity uuid, told_nonce text, candidates text[], described jsonb)
    RETURNS TABLE (fault text, named text, expired_at timestamptz) LANGUAGE plpgsql AS $$
DECLARE
    held lease;
BEGIN
    -- Each statement sees what was committed before it began, so the lock comes first.
    SELECT * INTO held FROM lease l WHERE l.id = of_lease FOR UPDATE;
    expired_at := held.expires_at;
    IF held.identity_id IS DISTINCT FROM by_identity THEN
        fault := 'no_lease';
    -- Digests, so that the time to compare them tells nothing.
    ELSIF sha256(convert_to(held.nonce, 'UTF8')) <> sha256(convert_to(told_nonce, 'UTF8')) THEN
        fault := 'nonce';
    ELSIF held.expires_at <= now() THEN
        fault := 'expired';
    ELSE
        SELECT 'unfit', min(c) INTO fault, named FROM unnest(candidates) c
        WHERE c NOT IN (SELECT i.candidate_id FROM lease_item i WHERE i.lease_id = of_lease)
        HAVING count(*) > 0;
        IF fault IS NULL THEN
            SELECT 'answered', min(m.candidate_id) INTO fault, named FROM measurement m
            WHERE m.lease_id = of_lease AND m.candidate_id = ANY (candidates)
            HAVING count(*) > 0;
        END IF;
    END IF;
    RETURN NEXT;
    IF fault IS NOT NULL THEN
        RETURN;
    END IF;
    INSERT INTO measurement
        (lease_id, candidate_id, identity_id, device_class, outcome, samples_ns, reference_ns,
         calls_per_sample, sampled_entries, detail, best_ns, relative_time,
         compile_ns, optimise_ns, pack_ns, first_run_ns, job_id)
    SELECT of_lease, f.candidate_id, by_identity, held.device_class, f.outcome,
           f.samples::double precision[], f.reference::double precision[], f.calls,
           f.entries::double precision[], f.detail, f.best_ns, f.relative_time,
           f.compile_ns, f.optimise_ns, f.pack_ns, f.first_run_ns,
           held.job_id
    FROM jsonb_to_recordset(described)
        AS f (candidate_id text, outcome text, samples text, reference text, calls integer,
              entries text, detail text, best_ns double precision,
              relative_time double precision, compile_ns double precision,
              optimise_ns double precision, pack_ns double precision,
              first_run_ns double precision);
    IF (SELECT count(*) FROM lease_item i WHERE i.lease_id = of_lease)
       = (SELECT count(*) FROM measurement m WHERE m.lease_id = of_lease) THEN
        UPDATE lease SET answered = true WHERE id = of_lease;
        IF NOT EXISTS (
            SELECT FROM lease o
            WHERE o.device_class = held.device_class AND o.job_id = held.job_id
              AND NOT o.answered AND o.expires_at > now()) THEN
            PERFORM pg_notify('kernelzoo_leases', '');
        END IF;
    END IF;
END
$$;
COMMENT ON FUNCTION accept_report IS
    'Stores measurements that answer a lease, all or none. `described` are those of `candidates`, '
    'with arrays of numbers as PostgreSQL writes them. `fault` says why none is stored, and is null '
    'where all are; `named` is the candidate at fault. Once everything on the lease is reported it '
    'wakes the agents of its class where none of them is still measuring: what they wait for can '
    'have changed then, and not before.';

CREATE TABLE job_progress (
    job_id bigint NOT NULL REFERENCES tuning_job,
    device_class text NOT NULL,
    agents integer NOT NULL DEFAULT 0,
    candidates integer NOT NULL DEFAULT 0,
    ok bigint NOT NULL DEFAULT 0,
    validate bigint NOT NULL DEFAULT 0,
    compile bigint NOT NULL DEFAULT 0,
    run bigint NOT NULL DEFAULT 0,
    compare bigint NOT NULL DEFAULT 0,
    timeout bigint NOT NULL DEFAULT 0,
    rejected bigint NOT NULL DEFAULT 0,
    ballots bigint NOT NULL DEFAULT 0,
    best_ns double precision,
    begun_at timestamptz,
    last_at timestamptz,
    PRIMARY KEY (job_id, device_class)
);
COMMENT ON TABLE job_progress IS
    'What the classes of a job have measured: all that there ever was, but for ballots, which are '
    'those that stand. What is removed for its age or erased stays counted, and names nobody.';
COMMENT ON COLUMN job_progress.agents IS 'Identities that measured at least one candidate.';
COMMENT ON COLUMN job_progress.ok IS 'Measurements that ran and were not rejected.';
COMMENT ON COLUMN job_progress.best_ns IS 'Of measurements that are verified, or wait for it.';
COMMENT ON COLUMN job_progress.begun_at IS 'When the first of the leases was granted.';

CREATE FUNCTION reference_time(workload_key text, device_class text)
    RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY recent.best_ns)
    FROM (
        SELECT latest.best_ns FROM candidate c
        CROSS JOIN LATERAL (
            SELECT m.created_at, (SELECT min(ns) FROM unnest(m.reference_ns) ns) AS best_ns
            FROM measurement m
            WHERE m.candidate_id = c.candidate_id AND m.device_class = $2
              AND m.outcome = 'ok' AND m.verdict = 'verified' AND m.lease_id > 0
            ORDER BY m.created_at DESC LIMIT 8
        ) latest
        WHERE c.workload_key = $1 AND c.target = target_of($2)
          -- Most keys are of classes that pages are of, and nobody measures.
          AND EXISTS (
            SELECT FROM tuning_job j JOIN job_progress p ON p.job_id = j.id
            WHERE j.workload_key = $1 AND p.device_class = $2)
        ORDER BY latest.created_at DESC LIMIT 64
    ) recent
$$;
COMMENT ON FUNCTION reference_time IS
    'Nanoseconds of one call of the default kernel as it was measured beside others: the median of '
    'the latest 64, of a candidate the latest eight; null without any.';

CREATE TABLE improvement (
    job_id bigint NOT NULL,
    device_class text NOT NULL,
    round bigint NOT NULL CHECK (round > 0),
    elapsed_s double precision NOT NULL,
    best_ns double precision NOT NULL,
    lease_id bigint NOT NULL,
    candidate_id text NOT NULL,
    PRIMARY KEY (job_id, device_class, round),
    FOREIGN KEY (job_id, device_class) REFERENCES job_progress
);
COMMENT ON TABLE improvement IS
    'Measurements that were faster than all before them of their job and class, and not rejected.';
COMMENT ON COLUMN improvement.round IS 'How many measurements the class had made of the job.';
COMMENT ON COLUMN improvement.elapsed_s IS 'Since the first lease.';

CREATE FUNCTION count_ballots() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    change record;
BEGIN
    FOR change IN
        SELECT j.id AS job_id, b.device_class, count(*) * CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END
                   AS ballots
        FROM changed b JOIN tuning_job j ON j.workload_key = b.workload_key
            AND j.target = target_of(b.device_class)
            AND j.space = space_of(target_of(b.device_class), device_id_of(b.device_class))
        GROUP BY j.id, b.device_class ORDER BY j.id, b.device_class
    LOOP
        INSERT INTO job_progress AS p (job_id, device_class, ballots)
        VALUES (change.job_id, change.device_class, greatest(0, change.ballots))
        ON CONFLICT (job_id, device_class) DO UPDATE
        SET ballots = greatest(0, p.ballots + change.ballots);
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION count_ballots IS 'Counts the standing ballots of a class in its job.';

CREATE TRIGGER ballot_counted AFTER INSERT ON ballot REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_ballots();
CREATE TRIGGER ballot_counted_no_more AFTER DELETE ON ballot REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION count_ballots();

CREATE FUNCTION count_measurements() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    added record;
    rounds bigint;
    fastest double precision;
    since timestamptz;
BEGIN
    FOR added IN
        SELECT r.job_id, r.device_class, min(l.created_at) AS begun_at,
               max(r.created_at) AS last_at, min(r.best_ns) AS best_ns,
               count(*) FILTER (WHERE r.outcome = 'ok') AS ok,
               count(*) FILTER (WHERE r.outcome = 'validate') AS validate,
               count(*) FILTER (WHERE r.outcome = 'compile') AS compile,
               count(*) FILTER (WHERE r.outcome = 'run') AS run,
               count(*) FILTER (WHERE r.outcome = 'compare') AS compare,
               count(*) FILTER (WHERE r.outcome = 'timeout') AS timeout
        FROM reported r JOIN lease l ON l.id = r.lease_id
        WHERE r.job_id IS NOT NULL
        GROUP BY r.job_id, r.device_class ORDER BY r.job_id, r.device_class
    LOOP
        INSERT INTO job_progress (job_id, device_class) VALUES (added.job_id, added.device_class)
        ON CONFLICT DO NOTHING;
        -- Those of one class take turns from here on, so that each sees what the others counted.
        SELECT p.ok + p.validate + p.compile + p.run + p.compare + p.timeout + p.rejected,
               coalesce(p.begun_at, added.begun_at)
        INTO rounds, since FROM job_progress p
        WHERE p.job_id = added.job_id AND p.device_class = added.device_class FOR UPDATE;
        SELECT i.best_ns INTO fastest FROM improvement i
        WHERE i.job_id = added.job_id AND i.device_class = added.device_class
        ORDER BY i.round DESC LIMIT 1;
        INSERT INTO improvement
            (job_id, device_class, round, elapsed_s, best_ns, lease_id, candidate_id)
        SELECT added.job_id, added.device_class, rounds + place,
               extract(epoch FROM created_at - since), best_ns, lease_id, candidate_id
        FROM (
            SELECT r.*, row_number() OVER made AS place,
                   min(r.best_ns) OVER (made ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                       AS before_ns
            FROM reported r
            WHERE r.job_id = added.job_id AND r.device_class = added.device_class
            WINDOW made AS (ORDER BY r.created_at, r.candidate_id, r.lease_id)
        ) found
        WHERE best_ns < coalesce(least(fastest, before_ns), 'infinity');
        UPDATE job_progress p
        SET agents = p.agents + (
                SELECT count(DISTINCT r.identity_id) FROM reported r
                WHERE r.job_id = p.job_id AND r.device_class = p.device_class AND NOT EXISTS (
                    SELECT FROM space_point s
                    JOIN measurement m ON m.candidate_id = s.candidate_id
                    WHERE s.job_id = p.job_id AND m.identity_id = r.identity_id
                      AND m.device_class = p.device_class
                      AND (m.lease_id, m.candidate_id) NOT IN (
                        SELECT lease_id, candidate_id FROM reported))),
            candidates = p.candidates + (
                SELECT count(DISTINCT r.candidate_id) FROM reported r
                WHERE r.job_id = p.job_id AND r.device_class = p.device_class AND NOT EXISTS (
                    SELECT FROM measurement m
                    WHERE m.candidate_id = r.candidate_id AND m.device_class = p.device_class
                      AND m.lease_id > 0 AND m.lease_id NOT IN (SELECT lease_id FROM reported))),
            ok = p.ok + added.ok, validate = p.validate + added.validate,
            compile = p.compile + added.compile, run = p.run + added.run,
            compare = p.compare + added.compare, timeout = p.timeout + added.timeout,
            best_ns = least(p.best_ns, added.best_ns), begun_at = since,
            last_at = greatest(p.last_at, added.last_at)
        WHERE p.job_id = added.job_id AND p.device_class = added.device_class;
    END LOOP;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION count_measurements IS 'Adds what was reported to job_progress and improvement.';

CREATE TRIGGER measurement_counted AFTER INSERT ON measurement
    REFERENCING NEW TABLE AS reported
    FOR EACH STATEMENT EXECUTE FUNCTION count_measurements();

CREATE FUNCTION count_refused() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    progress job_progress;
    refused improvement;
BEGIN
    SELECT * INTO progress FROM job_progress p
    WHERE p.job_id = NEW.job_id AND p.device_class = NEW.device_class FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF progress.best_ns >= NEW.best_ns THEN
        UPDATE job_progress p SET best_ns = (
            SELECT min(m.best_ns) FROM space_point s
            JOIN measurement m ON m.candidate_id = s.candidate_id
            WHERE s.job_id = p.job_id AND m.device_class = p.device_class
              AND m.verdict IN ('pending', 'verified') AND m.lease_id > 0)
        WHERE p.job_id = NEW.job_id AND p.device_class = NEW.device_class;
    END IF;
    IF NEW.verdict <> 'rejected' THEN
        RETURN NULL;
    END IF;
    UPDATE job_progress p
    SET rejected = p.rejected + 1, ok = p.ok - (NEW.outcome = 'ok')::integer
    WHERE p.job_id = NEW.job_id AND p.device_class = NEW.device_class;
    DELETE FROM improvement i
    WHERE i.job_id = NEW.job_id AND i.device_class = NEW.device_class
      AND i.lease_id = NEW.lease_id AND i.candidate_id = NEW.candidate_id
    RETURNING * INTO refused;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- What it was faster than may have been an improvement without it.
    DELETE FROM improvement i
    WHERE i.job_id = NEW.job_id AND i.device_class = NEW.device_class AND i.round > refused.round;
    INSERT INTO improvement (job_id, device_class, round, elapsed_s, best_ns, lease_id, candidate_id)
    SELECT NEW.job_id, NEW.device_class, refused.round + place,
           extract(epoch FROM created_at - progress.begun_at), best_ns, lease_id, candidate_id
    FROM (
        SELECT m.*, row_number() OVER made AS place,
               min(m.best_ns) FILTER (WHERE m.verdict <> 'rejected')
                   OVER (made ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns
        FROM space_point s JOIN measurement m ON m.candidate_id = s.candidate_id
        WHERE s.job_id = NEW.job_id AND m.device_class = NEW.device_class AND m.lease_id > 0
          AND (m.created_at, m.candidate_id, m.lease_id)
              > (NEW.created_at, NEW.candidate_id, NEW.lease_id)
        WINDOW made AS (ORDER BY m.created_at, m.candidate_id, m.lease_id)
    ) later
    WHERE verdict <> 'rejected' AND best_ns < coalesce(least(before_ns, (
        SELECT i.best_ns FROM improvement i
        WHERE i.job_id = NEW.job_id AND i.device_class = NEW.device_class
        ORDER BY i.round DESC LIMIT 1)), 'infinity');
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION count_refused IS
    'Takes a measurement back out of job_progress and improvement that is not believed. A quarantined '
    'one stays an improvement: no agent is told that it is not believed.';

CREATE TRIGGER measurement_refused AFTER UPDATE OF verdict ON measurement
    FOR EACH ROW WHEN (OLD.verdict <> NEW.verdict
                       AND NEW.verdict IN ('rejected', 'quarantined', 'unjudged'))
    EXECUTE FUNCTION count_refused();

CREATE TABLE program (
    key text PRIMARY KEY CHECK (key ~ '^program:[a-z0-9_]{1,40}:[0-9a-f]{16}$'),
    text text NOT NULL CHECK (octet_length(text) <= 65536),
    roundings double precision CHECK (roundings >= 0),
    registered_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE program IS
    'Programs by key, which ends in a hash of the text. Rows never change but for `roundings`.';
COMMENT ON COLUMN program.roundings IS
    'By how many roundings to f32 two right results may differ; null until a job of it is planned.';

CREATE TABLE census (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    figures jsonb NOT NULL
);
COMMENT ON TABLE census IS
    'One row: what the service holds and what waits, counted once a minute. Metrics are read from it.';
COMMENT ON COLUMN census.figures IS 'Numbers by the value of a label, by the name of a metric.';

CREATE TABLE periodic_task (
    task text PRIMARY KEY,
    ended_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE periodic_task IS
    'When a task of the clock last came to its end; one that fails or is killed leaves this as it is.';

CREATE TABLE retention_mark (
    of_table text PRIMARY KEY CHECK (of_table IN ('lease', 'agent_session')),
    reached bigint NOT NULL DEFAULT 0,
    again bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE retention_mark IS 'How far looking for what is too old has come, by number of a row.';
COMMENT ON COLUMN retention_mark.reached IS 'All rows up to here were old, and were looked at.';
COMMENT ON COLUMN retention_mark.again IS
    'Of those that were kept, all up to here were looked at again; at `reached` it begins anew.';

INSERT INTO publication (serial) VALUES (extract(epoch FROM now())::bigint);
INSERT INTO periodic_task (task) VALUES
    ('requeue'), ('order_spaces'), ('aggregate_by_family'), ('take_census'), ('train_model'),
    ('remove_old');
INSERT INTO retention_mark (of_table) VALUES ('lease'), ('agent_session');

"""Tuning: how fast kernels come to be, and what fails on the way."""

from dashboards.model import Dashboard, Metric, Panel, SqlQuery

NO_SAMPLES = "no task ran within the interval"

TUNING = Dashboard(
    uid="kernelzoo-tuning",
    title="Tuning",
    text="Compiling and measuring: time to kernels, queues, failures by stage.",
    panels=(
        Panel(
            title="Time to first kernel",
            text="From the registration of a workload to its first compiled candidate, by job.",
            unit="s",
            ask=(
                SqlQuery(
                    over_time=True,
                    query="""
                    SELECT j.created_at AS time, j.target AS metric,
                           extract(epoch FROM min(c.compiled_at) - j.created_at)::float8 AS seconds
                    FROM tuning_job j JOIN space_point p ON p.job_id = j.id
                    JOIN candidate c ON c.candidate_id = p.candidate_id
                    WHERE $__timeFilter(j.created_at) AND c.compiled_at >= j.created_at
                    GROUP BY j.id ORDER BY 1
                    """,
                ),
            ),
        ),
        Panel(
            title="Time to best",
            text="From the registration of a workload to the first measurement within 5 % of the "
            "best one of its class, of both within the time that is shown.",
            unit="s",
            ask=(
                SqlQuery(
                    over_time=True,
                    query="""
                    WITH timed AS (
                        SELECT j.id, j.created_at, j.target, m.device_class, m.best_ns,
                               m.created_at AS measured_at,
                               min(m.best_ns) OVER (PARTITION BY j.id, m.device_class) AS best
                        FROM tuning_job j JOIN lease l ON l.job_id = j.id
                        JOIN measurement m ON m.lease_id = l.id
                        WHERE $__timeFilter(j.created_at) AND $__timeFilter(l.created_at)
                          AND m.outcome = 'ok' AND m.verdict = 'verified'
                    )
                    SELECT created_at AS time, target AS metric,
                           extract(epoch FROM min(measured_at) - created_at)::float8 AS seconds
                    FROM timed WHERE best_ns <= 1.05 * best
                    GROUP BY id, created_at, target, device_class ORDER BY 1
                    """,
                ),
            ),
        ),
        Panel(
            title="Time to a confirmed kernel",
            text="From the registration of a workload to its first confirmed entry, by class, of "
            "both within the time that is shown.",
            unit="s",
            ask=(
                SqlQuery(
                    over_time=True,
                    query="""
                    SELECT j.created_at AS time, j.target AS metric,
                           extract(epoch FROM min(e.published_at) - j.created_at)::float8
                               AS seconds
                    FROM zoo_entry e
                    JOIN space_point p ON p.candidate_id = e.candidate_id
                    JOIN tuning_job j ON j.id = p.job_id
                    WHERE $__timeFilter(j.created_at) AND $__timeFilter(e.published_at)
                      AND e.state <> 'provisional'
                    GROUP BY j.id, e.device_class ORDER BY 1
                    """,
                ),
            ),
        ),
        Panel(
            title="Compile time",
            text="Of one candidate: its bytes, the kernels that lay weights out, its rows.",
            unit="s",
            ask=(
                Metric(
                    query="histogram_quantile(0.5, sum by (le, target, stage) "
                    "(rate(kernelzoo_compile_duration_seconds_bucket[$__rate_interval])))",
                    legend="{{target}} {{stage}} p50",
                    empty=NO_SAMPLES,
                ),
                Metric(
                    query="histogram_quantile(0.95, sum by (le, target, stage) "
                    "(rate(kernelzoo_compile_duration_seconds_bucket[$__rate_interval])))",
                    legend="{{target}} {{stage}} p95",
                    empty=NO_SAMPLES,
                ),
            ),
        ),
        Panel(
            title="Candidates compiled",
            text="Refused: the compiler found no kernel. Abandoned: each worker that tried died.",
            unit="cps",
            stacked=True,
            ask=(
                Metric(
                    query="sum by (target, result) "
                    "(rate(kernelzoo_candidates_total[$__rate_interval]))",
                    legend="{{target}} {{result}}",
                ),
            ),
        ),
        Panel(
            title="Failures by stage",
            text="Measurements that agents reported as failed, by the stage at which they did.",
            unit="cps",
            stacked=True,
            ask=(
                Metric(
                    query="sum by (outcome) (rate("
                    'kernelzoo_measurements_accepted_total{outcome!="ok"}[$__rate_interval]))',
                    legend="{{outcome}}",
                ),
            ),
        ),
        Panel(
            title="Rows that wait",
            text="Counted in PostgreSQL once a minute; Redis may hold fewer messages, or more.",
            ask=(Metric(query="max by (queue) (kernelzoo_queue_depth)", legend="{{queue}}"),),
        ),
        Panel(
            title="Age of the oldest row that waits",
            text="Minutes mean that workers are too few, dead, or fail again and again.",
            unit="s",
            ask=(
                Metric(
                    query="max by (queue) (kernelzoo_queue_oldest_age_seconds)", legend="{{queue}}"
                ),
            ),
        ),
        Panel(
            title="Wait and run time of tasks",
            text="95 of 100 waited, and took, no longer. Of messages that were sent again, "
            "the wait counts from the last time.",
            unit="s",
            ask=(
                Metric(
                    query="histogram_quantile(0.95, sum by (le, task) "
                    "(rate(kernelzoo_queue_wait_seconds_bucket[$__rate_interval])))",
                    legend="{{task}} waits",
                    empty=NO_SAMPLES,
                ),
                Metric(
                    query="histogram_quantile(0.95, sum by (le, task) "
                    "(rate(kernelzoo_task_duration_seconds_bucket[$__rate_interval])))",
                    legend="{{task}} runs",
                    empty=NO_SAMPLES,
                ),
            ),
        ),
        Panel(
            title="Agents online",
            text="Identities that opened a session or were lent candidates within ten minutes.",
            stacked=True,
            ask=(Metric(query="max by (engine) (kernelzoo_agents_online)", legend="{{engine}}"),),
        ),
        Panel(
            title="Leases",
            text="Candidates lent, and agents whose request for some waits.",
            ask=(
                Metric(
                    query="sum by (target) "
                    "(rate(kernelzoo_leased_candidates_total[$__rate_interval]))",
                    legend="{{target}} candidates a second",
                ),
                Metric(query="sum(kernelzoo_polls_waiting)", legend="agents waiting"),
                Metric(
                    query="sum(rate(kernelzoo_queued_kernels_total[$__rate_interval]))",
                    legend="candidates a second to pages that tune themselves",
                ),
                Metric(query="sum(kernelzoo_queue_streams)", legend="such pages"),
            ),
        ),
        Panel(
            title="Tasks that failed",
            text="After their retries. Work of which the row still waits is requeued.",
            unit="cps",
            ask=(
                Metric(
                    query="sum(rate(kernelzoo_task_failures_total[$__rate_interval]))",
                    legend="failed",
                ),
                Metric(
                    query="sum(rate(kernelzoo_jobs_lost_total[$__rate_interval]))",
                    legend="messages lost",
                ),
            ),
        ),
        Panel(
            title="Age of the clock's tasks",
            text="Since each last came to its end. One that fails or is killed grows old.",
            unit="s",
            ask=(
                Metric(
                    query="max by (periodic) (kernelzoo_periodic_task_age_seconds)",
                    legend="{{periodic}}",
                ),
            ),
        ),
    ),
)

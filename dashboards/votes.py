"""Votes: whether the crowd agrees, what is set aside, and what comes of it."""

from dashboards.model import Dashboard, Metric, Panel, SqlQuery

VOTES = Dashboard(
    uid="kernelzoo-votes",
    title="Votes",
    text="Ballots and the measurements behind them: agreement, what was set aside, promotions.",
    panels=(
        Panel(
            title="Agreement",
            text="Rank weights that the winner of a key received, as a share of what it would have "
            "if all ballots named it first; live entries alone.",
            kind="stat",
            unit="percentunit",
            width=6,
            height=6,
            ask=(
                SqlQuery(
                    query="""
                    SELECT coalesce(avg(weight / nullif(5.0 * ballots, 0)), 0)::float8
                               AS agreement
                    FROM zoo_entry WHERE state <> 'retired'
                    """
                ),
            ),
        ),
        Panel(
            title="Entries",
            text="Versions of zoo entries by their state.",
            kind="stat",
            width=6,
            height=6,
            ask=(Metric(query="max by (state) (kernelzoo_zoo_entries)", legend="{{state}}"),),
        ),
        Panel(
            title="Where the crowd disagrees most",
            text="Live entries whose winner is furthest from being named first by all ballots.",
            kind="table",
            width=12,
            height=6,
            ask=(
                SqlQuery(
                    query="""
                    SELECT workload_key, device_class, state, ballots,
                           (weight / (5.0 * ballots))::float8 AS agreement
                    FROM zoo_entry WHERE state <> 'retired' AND ballots > 1
                    ORDER BY agreement, workload_key, device_class LIMIT 50
                    """
                ),
            ),
        ),
        Panel(
            title="Ballots",
            text="Filed, and refused for naming what their identity has not measured.",
            unit="cps",
            ask=(
                Metric(
                    query="sum(rate(kernelzoo_ballots_total[$__rate_interval]))", legend="filed"
                ),
                Metric(
                    query="sum(rate(kernelzoo_ballots_refused_total[$__rate_interval]))",
                    legend="refused",
                ),
            ),
        ),
        Panel(
            title="Verdicts",
            text="On measurements, from recomputed entries of their output and further checks.",
            unit="cps",
            stacked=True,
            ask=(
                Metric(
                    query="sum by (verdict) (rate(kernelzoo_verdicts_total[$__rate_interval]))",
                    legend="{{verdict}}",
                ),
            ),
        ),
        Panel(
            title="Reports refused",
            text="Measurements that were not stored, by the fault of their report.",
            unit="cps",
            stacked=True,
            ask=(
                Metric(
                    query="sum by (reason) "
                    "(rate(kernelzoo_measurements_refused_total[$__rate_interval]))",
                    legend="{{reason}}",
                ),
            ),
        ),
        Panel(
            title="Promotions and rollbacks",
            text="Versions published, by their state, and entries brought back to an earlier one.",
            ask=(
                Metric(
                    query='sum by (state) (increase(kernelzoo_promotions_total{state!="retired"}'
                    "[$__rate_interval]))",
                    legend="{{state}}",
                ),
                Metric(
                    query="sum(increase(kernelzoo_rollbacks_total[$__rate_interval]))",
                    legend="rolled back",
                ),
            ),
        ),
        Panel(
            title="Measurements set aside",
            text="By class of device: whatever is not verified does not count.",
            kind="table",
            width=16,
            ask=(
                SqlQuery(
                    query="""
                    SELECT device_class, verdict, count(*) AS measurements,
                           count(DISTINCT identity_id) AS identities
                    FROM measurement
                    WHERE $__timeFilter(created_at)
                      AND verdict IN ('rejected', 'quarantined', 'unjudged')
                    GROUP BY device_class, verdict ORDER BY measurements DESC LIMIT 50
                    """
                ),
            ),
        ),
    ),
)

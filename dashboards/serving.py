"""Serving: what pages get, how fast, and what it is worth to them."""

from dashboards.model import Dashboard, Metric, Panel, SqlQuery

NO_REQUESTS = "no request came within the interval"

SERVING = Dashboard(
    uid="kernelzoo-serving",
    title="Serving",
    text="Manifests and kernels as pages get them. Answers of a cache before the gateway are not "
    "seen here.",
    panels=(
        Panel(
            title="Exact hits",
            text="Of kernels named in manifests, the share that the page's own class voted for.",
            kind="stat",
            unit="percentunit",
            width=6,
            height=6,
            ask=(
                Metric(
                    query='sum(increase(kernelzoo_manifest_kernels_total{level="exact"}[$__range]))'
                    " / sum(increase(kernelzoo_manifest_kernels_total[$__range]))",
                ),
            ),
        ),
        Panel(
            title="Speed-up served",
            text="Of confirmed kernels over the default kernel, as ballots say it; each key weighs "
            "as much as pages ask for it.",
            kind="stat",
            unit="x",
            width=6,
            height=6,
            ask=(Metric(query="max(kernelzoo_served_speed_up_ratio)", legend="times as fast"),),
        ),
        Panel(
            title="Estimated seconds saved",
            text="If every page load had run each kernel that it was served once: the least that "
            "it can be, for nobody tells how often a page runs one.",
            kind="stat",
            unit="s",
            width=6,
            height=6,
            ask=(Metric(query="max(kernelzoo_saved_seconds)", legend="saved"),),
        ),
        Panel(
            title="Page loads",
            text="Manifests answered since counting began, by workload set or workload.",
            kind="table",
            width=6,
            height=6,
            ask=(
                SqlQuery(
                    query="""
                    SELECT name, sum(loads)::bigint AS page_loads,
                           count(*) AS classes, max(last_at) AS last
                    FROM page_load GROUP BY name ORDER BY page_loads DESC LIMIT 50
                    """
                ),
            ),
        ),
        Panel(
            title="Kernels by hit level",
            text="The step of the fallback chain that each kernel in a manifest came from.",
            unit="cps",
            stacked=True,
            ask=(
                Metric(
                    query="sum by (level) "
                    "(rate(kernelzoo_manifest_kernels_total[$__rate_interval]))",
                    legend="{{level}}",
                ),
            ),
        ),
        Panel(
            title="Manifest latency",
            text="Finding a manifest in the cache (hit), or building it from rows (miss).",
            unit="s",
            ask=tuple(
                Metric(
                    query=f"histogram_quantile({quantile}, sum by (le, cache) "
                    "(rate(kernelzoo_manifest_duration_seconds_bucket[$__rate_interval])))",
                    legend=f"cache {{{{cache}}}}, {name}",
                    empty=NO_REQUESTS,
                )
                for quantile, name in ((0.5, "p50"), (0.99, "p99"))
            ),
        ),
        Panel(
            title="Answer latency by route",
            text="99 of 100 answers took no longer. Polls for a lease wait on purpose.",
            unit="s",
            ask=(
                Metric(
                    query="histogram_quantile(0.99, sum by (le, route) "
                    '(rate(kernelzoo_http_request_duration_seconds_bucket{route!="/v1/leases"}'
                    "[$__rate_interval])))",
                    legend="{{route}}",
                    empty=NO_REQUESTS,
                ),
            ),
        ),
        Panel(
            title="Requests by status",
            text="Of all routes.",
            unit="reqps",
            stacked=True,
            ask=(
                Metric(
                    query="sum by (status) (rate(kernelzoo_http_requests_total[$__rate_interval]))",
                    legend="{{status}}",
                ),
            ),
        ),
        Panel(
            title="Bytes of kernels",
            text="Sent by gateways.",
            unit="Bps",
            stacked=True,
            ask=(
                Metric(
                    query="sum by (target) "
                    "(rate(kernelzoo_artifact_sent_bytes_total[$__rate_interval]))",
                    legend="{{target}}",
                ),
            ),
        ),
        Panel(
            title="Bytes of models",
            text="Of files of models that pages asked for: weights, for the most part.",
            unit="Bps",
            ask=(
                Metric(
                    query="sum(rate(kernelzoo_blob_sent_bytes_total[$__rate_interval]))",
                    legend="asked for",
                ),
            ),
        ),
        Panel(
            title="Size by table",
            text="On PostgreSQL's disk, with indexes.",
            unit="bytes",
            stacked=True,
            ask=(
                Metric(query="max by (table) (kernelzoo_table_size_bytes)", legend="{{table}}"),
                Metric(query="max(kernelzoo_database_size_bytes)", legend="the whole database"),
            ),
        ),
        Panel(
            title="Rows removed as old",
            text="Once an hour what is older than it is kept for, and nothing stands on.",
            ask=(
                Metric(
                    query="sum by (removed) "
                    "(increase(kernelzoo_rows_removed_total[$__rate_interval]))",
                    legend="{{removed}}",
                ),
            ),
        ),
        Panel(
            title="Wait for a connection to PostgreSQL",
            text="99 of 100 requests waited no longer for one of the gateway's 12, or of 4 for "
            "page loads. A manifest that cannot be built soon is refused with 503 at once.",
            unit="s",
            ask=(
                Metric(
                    query="histogram_quantile(0.99, sum by (le) "
                    "(rate(kernelzoo_connection_pool_wait_seconds_bucket[$__rate_interval])))",
                    legend="p99",
                    empty=NO_REQUESTS,
                ),
                Metric(
                    query="sum(rate(kernelzoo_connection_pool_timeouts_total[$__rate_interval]))",
                    legend="timeouts a second",
                ),
                Metric(
                    query="sum(rate(kernelzoo_manifests_shed_total[$__rate_interval]))",
                    legend="manifests not built, a second",
                ),
                Metric(
                    query="sum(rate(kernelzoo_purges_total[$__rate_interval]))",
                    legend="purges of a CDN, a second",
                ),
                Metric(
                    query="sum(rate(kernelzoo_purge_failures_total[$__rate_interval]))",
                    legend="purges of a CDN that failed, a second",
                ),
            ),
        ),
    ),
)

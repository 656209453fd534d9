"""Device coverage: which classes of devices have which kernels, and how much it matters."""

from dashboards.model import Dashboard, Metric, Panel, SqlQuery

COVERAGE = Dashboard(
    uid="kernelzoo-coverage",
    title="Device coverage",
    text="From PostgreSQL. Page loads are those that reached a gateway, not a cache before it.",
    panels=(
        Panel(
            title="Page loads with a confirmed kernel",
            text="Of all kernels that pages asked for, the share that a quorum has confirmed.",
            kind="stat",
            unit="percentunit",
            width=6,
            height=6,
            ask=(
                SqlQuery(
                    query="""
                    SELECT coalesce(sum(loads) FILTER (WHERE state = 'confirmed')
                                    / nullif(sum(loads), 0), 0)::float8 AS share
                    FROM coverage
                    """
                ),
            ),
        ),
        Panel(
            title="Keys by state",
            text="Workloads times classes of devices.",
            kind="table",
            width=6,
            height=6,
            ask=(
                SqlQuery(
                    query="""
                    SELECT state, count(*) AS keys, sum(loads)::bigint AS page_loads
                    FROM coverage GROUP BY state ORDER BY state
                    """
                ),
            ),
        ),
        Panel(
            title="Devices",
            text="Of classes that an agent ran on within the last 30 days, by architecture, and "
            "all agents that they ever had.",
            kind="table",
            width=12,
            height=6,
            ask=(
                SqlQuery(
                    query="""
                    SELECT d.cpu_architecture AS cpu, d.gpu_vendor, d.gpu_architecture AS gpu,
                           count(DISTINCT d.device_id) AS devices, count(*) AS classes,
                           sum(c.identities)::bigint AS agents
                    FROM device d JOIN device_class c ON c.device_id = d.device_id
                    WHERE c.last_seen_at > now() - interval '30 days'
                    GROUP BY 1, 2, 3 ORDER BY agents DESC LIMIT 50
                    """
                ),
            ),
        ),
        Panel(
            title="Models",
            text="Models that are registered.",
            kind="stat",
            width=4,
            height=5,
            ask=(Metric(query="max(kernelzoo_models)", legend="models"),),
        ),
        Panel(
            title="Operations of models with a confirmed kernel",
            text="One line a model, of the hundred that pages ask for most, over the classes of "
            "pages that asked for it on WebAssembly, by their number.",
            unit="percentunit",
            height=9,
            ask=(
                Metric(
                    query="max by (model) (kernelzoo_model_confirmed_ratio)",
                    legend="{{model}}",
                    empty="no model is registered",
                ),
            ),
        ),
        Panel(
            title="Models × classes",
            text="How many workloads of a model are confirmed on the classes that ask for it most; "
            "the share is of the operations of an inference.",
            kind="table",
            width=12,
            height=9,
            ask=(
                SqlQuery(
                    query="""
                    SELECT model, dimensions::text AS dimensions, device_class, workloads,
                           confirmed, provisional,
                           round(100 * coalesce(confirmed_flops, 0)) AS percent_of_operations,
                           loads AS page_loads
                    FROM model_coverage
                    ORDER BY loads DESC, model, position, device_class LIMIT 100
                    """
                ),
            ),
        ),
        Panel(
            title="Models that are wrong",
            text="Plans whose golden outputs pages of a class computed wrongly although they ran "
            "default kernels, within 30 days, and on how many networks.",
            kind="table",
            width=24,
            height=6,
            ask=(
                SqlQuery(
                    query="""
                    SELECT model, dimensions::text AS dimensions, f16, device_class,
                           array_to_string(outputs, ', ') AS outputs, networks, since,
                           last_at AS last
                    FROM wrong_model ORDER BY networks DESC, last_at DESC, model LIMIT 100
                    """
                ),
            ),
        ),
        Panel(
            title="Classes × workloads",
            text="The forty classes and forty workloads that pages ask for most.",
            kind="table",
            width=24,
            height=12,
            matrix=("workload_key", "device_class", "state"),
            ask=(
                SqlQuery(
                    query="""
                    WITH class AS (
                        SELECT device_class FROM coverage GROUP BY 1
                        ORDER BY sum(loads) DESC, 1 LIMIT 40
                    ), workload AS (
                        SELECT workload_key FROM coverage GROUP BY 1
                        ORDER BY sum(loads) DESC, 1 LIMIT 40
                    )
                    SELECT device_class, workload_key, state FROM coverage
                    JOIN class USING (device_class) JOIN workload USING (workload_key)
                    ORDER BY device_class, workload_key
                    """
                ),
            ),
        ),
        Panel(
            title="What to tune next",
            text="Keys without a confirmed kernel, those that most pages ask for first.",
            kind="table",
            width=24,
            height=9,
            ask=(
                SqlQuery(
                    query="""
                    SELECT workload_key, device_class, state, loads::bigint AS page_loads
                    FROM coverage WHERE state <> 'confirmed'
                    ORDER BY loads DESC, workload_key, device_class LIMIT 50
                    """
                ),
            ),
        ),
    ),
)

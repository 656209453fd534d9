"""Device coverage: which classes of devices have which kernels, and how much it matters."""

from dashboards.model import Dashboard, Metric, Panel, SqlQuery

COVERAGE = Dashboard(
    uid="kernelzoo-coverage",
    title="Device coverage",
    text="Page loads are those that reached a gateway, not a cache before it; they are added up "
    "within half an hour where classes are thousands.",
    panels=(
        Panel(
            title="Page loads with a confirmed kernel",
            text="Of all kernels that pages asked for, the share that a quorum has confirmed.",
            kind="stat",
            unit="percentunit",
            width=6,
            height=6,
            ask=(
                Metric(
                    query='max(kernelzoo_coverage_page_loads{coverage="confirmed"}) '
                    "/ clamp_min(sum(max by (coverage) (kernelzoo_coverage_page_loads)), 1)",
                    legend="confirmed",
                ),
            ),
        ),
        Panel(
            title="Keys by state",
            text="A workload on a class of devices that measured it or whose pages asked for it.",
            kind="stat",
            width=6,
            height=6,
            ask=(
                Metric(query="max by (coverage) (kernelzoo_coverage_keys)", legend="{{coverage}}"),
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
            text="How many workloads of a model are confirmed on the forty classes that ask for it "
            "most; the share is of the operations of an inference.",
            kind="table",
            width=12,
            height=9,
            ask=(
                SqlQuery(
                    query="""
                    WITH asked AS MATERIALIZED (
                        SELECT name, device_class, loads FROM page_load
                        WHERE name LIKE 'model:%' AND target = 'wasm'
                        ORDER BY loads DESC, name, device_class LIMIT 40
                    )
                    SELECT p.model, p.dimensions::text AS dimensions, a.device_class,
                           count(*) AS workloads,
                           count(*) FILTER (WHERE c.state = 'confirmed') AS confirmed,
                           count(*) FILTER (WHERE c.state = 'provisional') AS provisional,
                           round(100 * coalesce(
                               sum(m.calls * w.flops) FILTER (WHERE c.state = 'confirmed')
                               / sum(m.calls * w.flops), 0)) AS percent_of_operations,
                           a.loads AS page_loads
                    FROM asked a
                    JOIN model_plan p ON 'model:' || p.model = a.name
                    JOIN model_workload m ON m.plan_id = p.id
                    JOIN workload w ON w.key = m.workload_key
                    LEFT JOIN coverage c ON c.workload_key = m.workload_key
                        AND c.device_class = a.device_class
                    GROUP BY p.id, a.device_class, a.loads
                    ORDER BY a.loads DESC, p.model, p.position, a.device_class LIMIT 100
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
                    WITH class AS MATERIALIZED (
                        SELECT device_class FROM page_load GROUP BY 1
                        ORDER BY sum(loads) DESC, 1 LIMIT 40
                    ), asked AS MATERIALIZED (
                        SELECT name, sum(loads) AS loads FROM page_load GROUP BY name
                    ), workload AS MATERIALIZED (
                        SELECT member.workload_key
                        FROM asked a CROSS JOIN LATERAL asked_workloads(a.name) member
                        GROUP BY 1 ORDER BY sum(a.loads) DESC, 1 LIMIT 40
                    )
                    SELECT c.device_class, c.workload_key, c.state
                    FROM class CROSS JOIN workload
                    JOIN coverage c USING (workload_key, device_class)
                    ORDER BY c.device_class, c.workload_key
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

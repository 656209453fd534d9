-- The workloads behind the name that a page asks for are found in one place.

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

"""Names of the series that Prometheus gets."""

from prometheus_client.metrics import MetricWrapperBase

from kernelzoo import metrics

SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}

EXPORTED = {
    f"{metric._name}{suffix}"
    for metric in vars(metrics).values()
    if isinstance(metric, MetricWrapperBase)
    for suffix in SUFFIXES[str(metric._type)]
} | {asked.name for asked in metrics.ASKED}

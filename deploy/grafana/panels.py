"""Parts of the dashboards: PromQL for the testbed's metrics, and panels in one style.

Queries select the run and the variants that the user selects at the top of a dashboard. Predictions of the theory are
dashed lines, so that readers can tell them from measurements without colour.
"""

from __future__ import annotations

from dataclasses import dataclass

from grafana_foundation_sdk.builders import bargauge, common, dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.common import (
    DataSourceRef,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    ScaleDistribution,
    TooltipDisplayMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import Dashboard as DashboardModel
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataTransformerConfig,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.dashboard import Panel as PanelModel
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
PANEL_HEIGHT = 8

RESPONSE = "testbed_response_time_seconds"
MEAN = "variant:testbed_response_time_seconds:mean"
QUANTILE = "variant:testbed_response_time_seconds:quantile"
THEORY = "testbed_predicted_response_time_seconds"
THEORY_QUANTILE = "testbed_predicted_response_time_quantile_seconds"
LOAD = "testbed_load"
BOUND = "testbed_stability_bound"


def selected(metric: str, **labels: str) -> str:
    """Return the series of a metric, of the selected run and variants, with these labels."""
    others = "".join(f', {name}="{value}"' for name, value in labels.items())
    return f'{metric}{{run="$run", variant=~"$variant"{others}}}'


def total(metric: str, *by: str, **labels: str) -> str:
    """Sum a metric over processes: one value per variant and combination of the labels ``by``."""
    return f"sum by ({', '.join(('variant', *by))}) ({selected(metric, **labels)})"


def rate(metric: str, *by: str, **labels: str) -> str:
    """Return the recent growth of a counter per second, summed as by ``total``."""
    return f"sum by ({', '.join(('variant', *by))}) (rate({selected(metric, **labels)}[$__rate_interval]))"


def mean(histogram: str) -> str:
    """Return the mean of a histogram's recent values, by variant."""
    return f"{rate(histogram + '_sum')} / ({rate(histogram + '_count')} > 0)"


def quantile(probability: float, histogram: str, *by: str) -> str:
    """Return a quantile of a histogram's recent values, by variant and the labels ``by``."""
    return f"histogram_quantile({probability}, {rate(histogram + '_bucket', 'le', *by)}) >= 0"


def by_variant(rule: str, **labels: str) -> str:
    """Return the values of a recording rule, averaged over replications."""
    return f"avg by (variant) ({selected(rule, **labels)})"


def final(metric: str, *by: str) -> str:
    """Sum the last values of a metric within the dashboard's time range, also of finished processes and variants."""
    return f"sum by ({', '.join(('variant', *by))}) (last_over_time({selected(metric)}[$__range]))"


def predicted() -> str:
    """Return the mean response time by theory, also of finished variants."""
    return f"avg by (variant) (last_over_time({selected(THEORY)}[$__range]))"


@dataclass(frozen=True)
class Query:
    """A query in PromQL, and the legend of its series. ``exemplars``: also query exemplars, which name single jobs."""

    expr: str
    legend: str = "{{variant}}"
    exemplars: bool = False

    def target(
        self, number: int, *, instant: bool = False, kind: PromQueryFormat | None = None
    ) -> prometheus.Dataquery:
        """Return the query in Grafana's format, the ``number``-th of its panel."""
        query = prometheus.Dataquery().datasource(DATASOURCE).ref_id(chr(ord("A") + number))
        query.expr(self.expr).legend_format(self.legend)
        query = query.instant() if instant else query.range()
        if kind is not None:
            query.format(kind)
        if self.exemplars:
            query.exemplar(True)
        return query


def lines(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    width: int = 8,
    limit: float | None = None,
    logarithmic: bool = False,
) -> timeseries.Panel:
    """Draw queries over time; ``limit`` is drawn as a dashed line across."""
    panel = timeseries.Panel().title(title).description(description).datasource(DATASOURCE)
    panel.unit(unit).height(PANEL_HEIGHT).span(width).fill_opacity(0).line_width(2)
    panel.legend(
        common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).show_legend(True).calcs(["lastNotNull"])
    )
    panel.tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    panel.override_by_regexp("/theory/", [DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [10, 10]})])
    if logarithmic:
        panel.scale_distribution(common.ScaleDistributionConfig().type(ScaleDistribution.LOG).log(10))
    else:
        panel.min(0)
    if limit is not None:
        steps = [Threshold(None, "green"), Threshold(limit, "red")]
        panel.thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED))
    for number, query in enumerate(queries):
        panel.with_target(query.target(number))
    return panel


def numbers(title: str, description: str, unit: str, *queries: Query, width: int = 8, height: int = 4) -> stat.Panel:
    """Show the last values of queries within the dashboard's time range as numbers."""
    panel = stat.Panel().title(title).description(description).datasource(DATASOURCE)
    panel.unit(unit).height(height).span(width).reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    for number, query in enumerate(queries):
        panel.with_target(query.target(number))
    return panel


def bars(title: str, description: str, unit: str, *queries: Query, width: int = 8) -> bargauge.Panel:
    """Show the last values of queries as bars."""
    panel = bargauge.Panel().title(title).description(description).datasource(DATASOURCE)
    panel.unit(unit).min(0).height(PANEL_HEIGHT).span(width).orientation(VizOrientation.HORIZONTAL)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    for number, query in enumerate(queries):
        panel.with_target(query.target(number, instant=True))
    return panel


def heat(title: str, description: str, unit: str, histogram: str, *, width: int = 8) -> heatmap.Panel:
    """Draw a histogram over time: the number of values in each bucket."""
    panel = heatmap.Panel().title(title).description(description).datasource(DATASOURCE)
    panel.height(PANEL_HEIGHT).span(width).calculate(False).y_axis(heatmap.YAxisConfig().unit(unit))
    expr = f"sum by (le) (increase({selected(histogram + '_bucket')}[$__rate_interval]))"
    return panel.with_target(Query(expr, "{{le}}", exemplars=True).target(0, kind=PromQueryFormat.HEATMAP))


def comparison(title: str, description: str, columns: dict[str, tuple[str, Query]], *, width: int = 24) -> table.Panel:
    """Show a table with a row for each variant and a column for each query; ``columns`` give units and queries."""
    panel = table.Panel().title(title).description(description).datasource(DATASOURCE).height(PANEL_HEIGHT).span(width)
    names = {"variant": "variant"}
    for number, (column, (unit, query)) in enumerate(columns.items()):
        panel.with_target(query.target(number, instant=True, kind=PromQueryFormat.TABLE))
        names[f"Value #{chr(ord('A') + number)}"] = column
        panel.override_by_name(column, [DynamicConfigValue("unit", unit)])
    panel.with_transformation(DataTransformerConfig("merge", options={}))
    order = {name: number for number, name in enumerate(names)}
    options = {"excludeByName": {"Time": True}, "renameByName": names, "indexByName": order}
    return panel.with_transformation(DataTransformerConfig("organize", options=options))


def variables() -> list[dashboard.QueryVariable | dashboard.DatasourceVariable]:
    """Return the variables that the user selects at the top: the Prometheus server, a run, and its variants."""
    run = dashboard.QueryVariable("run").label("run").datasource(DATASOURCE)
    # Latest run first.
    run.query("query_result(sort_desc(max by (run) (max_over_time(timestamp(testbed_servers)[$__range:5s]))))")
    run.regex('/run="([^"]+)"/').refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    variant = dashboard.QueryVariable("variant").label("variant").datasource(DATASOURCE)
    variant.query('label_values(testbed_servers{run="$run"}, variant)').refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    variant.multi(True).include_all(True).all_value(".+").sort(VariableSort.ALPHABETICAL_ASC)
    variant.current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    return [dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"), run, variant]


def board(uid: str, title: str, description: str, rows: dict[str, list[Builder[PanelModel]]]) -> DashboardModel:
    """Return a dashboard with rows of panels."""
    builder = dashboard.Dashboard(f"Testbed: {title}").uid(uid).description(description).tags(["testbed"])
    builder.time("now-15m", "now").refresh("5s").timezone("browser").tooltip(DashboardCursorSync.CROSSHAIR).readonly()
    for variable in variables():
        builder.with_variable(variable)
    builder.link(
        dashboard.DashboardLink("Testbed")
        .type(DashboardLinkType.DASHBOARDS)
        .tags(["testbed"])
        .keep_time(True)
        .include_vars(True)
    )
    for name, panels in rows.items():
        builder.with_row(dashboard.Row(name))
        for panel in panels:
            builder.with_panel(panel)
    built = builder.build()
    for number, placed in enumerate(built.panels or [], start=1):
        placed.id_val = number
    return built

/** Metrics of OTLP, of which nothing is kept: how many data points a request holds. */
import { isRecord } from '../../events/json.ts';

/** Members of a metric that hold data points, in `opentelemetry/proto/metrics/v1/metrics.proto`. */
const KINDS = ['gauge', 'sum', 'histogram', 'exponentialHistogram', 'summary'];

const listAt = (value: unknown, name: string): readonly unknown[] => {
  const list = isRecord(value) ? value[name] : undefined;
  return Array.isArray(list) ? list : [];
};

/** Data points of an `ExportMetricsServiceRequest` in JSON. */
export const dataPointsIn = (request: unknown): number =>
  listAt(request, 'resourceMetrics')
    .flatMap((resource) => listAt(resource, 'scopeMetrics'))
    .flatMap((scope) => listAt(scope, 'metrics'))
    .reduce<number>(
      (sum, metric) =>
        sum + (isRecord(metric) ? KINDS.reduce((n, kind) => n + listAt(metric[kind], 'dataPoints').length, 0) : 0),
      0,
    );

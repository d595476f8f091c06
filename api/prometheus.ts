/** What this process counts of itself: the only file that imports prom-client. */
import { collectDefaultMetrics, Histogram, Registry } from 'prom-client';

const registry = new Registry();
collectDefaultMetrics({ register: registry });

const requests = new Histogram({
  name: 'troupe_http_request_duration_seconds',
  help: 'Seconds from the first byte of a request to the last of its response, by route pattern.',
  labelNames: ['method', 'route'],
  // A call of a model takes up to a minute, an append a few milliseconds.
  buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  registers: [registry],
});

/** Counts a request that was answered. */
export const observeRequest = (method: string, route: string, seconds: number): void =>
  requests.observe({ method, route }, seconds);

/** `process_*`, `nodejs_*` and the histograms of this process, in the Prometheus text format. */
export const processMetrics = (): Promise<string> => registry.metrics();

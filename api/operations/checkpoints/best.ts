/** The best of checkpoints by a metric, as people name it. */

/** `METRIC`, `METRIC:min` or `METRIC:max`. @throws Error */
export function bestOf(written: string): { readonly metric: string; readonly mode: 'min' | 'max' } {
  const [, metric = '', mode] = /^(.*?)(?::(min|max))?$/.exec(written) ?? [];
  if (metric === '' || metric.includes(':')) throw new Error('should be METRIC, METRIC:min or METRIC:max');
  return { metric, mode: mode === 'min' || mode === 'max' ? mode : /loss$/.test(metric) ? 'min' : 'max' };
}

/** Traces of this process, where the setting `traces` names a receiver of them. */
import type { Config } from '../../config.ts';
import { got, TroupeError } from '../../errors.ts';
import { say } from '../output.ts';
import { VERSION } from '../version.ts';

/** Runs the work of a role, and sends what is left of its spans once it has ended. @throws TroupeError `config_invalid` */
export async function tracing<T>(
  { traces, traces_key: key }: Pick<Config, 'traces' | 'traces_key'>,
  { role, project }: { readonly role: string; readonly project: string },
  work: () => Promise<T>,
): Promise<T> {
  if (traces === null) return work();
  const url = addressOf(traces);
  const [{ openExporter }, { recordSpans }] = await Promise.all([
    import('../../api/health/tracing/exporter.ts'),
    import('../../api/health/tracing/spans.ts'),
  ]);
  const resource = {
    'service.name': 'troupe',
    'service.version': VERSION,
    'process.pid': process.pid,
    'troupe.role': role,
    'troupe.project': project,
  };
  const { take, close } = openExporter({ url, key }, { resource, version: VERSION, say });
  recordSpans(take);
  try {
    return await work();
  } finally {
    recordSpans(null);
    await close();
  }
}

/** @throws TroupeError `config_invalid` */
function addressOf(traces: string): string {
  const url = URL.canParse(traces) ? new URL(traces) : null;
  if (url !== null && /^https?:$/.test(url.protocol) && `${url.username}${url.password}` === '') return url.href;
  throw new TroupeError(
    'config_invalid',
    // Not shown: it may hold a secret.
    'The setting traces (TROUPE_TRACES) should be the address that takes OpenTelemetry traces, such as http://127.0.0.1:4318/v1/traces, without name and password; a key belongs into traces_key.',
    { field: 'traces', expected: 'an address', got: got('***') },
  );
}
